"""Where settings come from: the environment first, then the profile, a file of settings that is chosen by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

PREFIX = "SPRINGLINE_"


def profile_file(chosen: str, profiles: Path) -> Path:
    """The file of a profile: `chosen` is a path, or the name of a file NAME.env in `profiles`.

    Raises `SettingsError`, naming the profiles that there are.
    """
    path = Path(chosen).expanduser() if os.sep in chosen else profiles / f"{chosen}.env"
    if not path.is_file():
        names = ", ".join(sorted(each.stem for each in profiles.glob("*.env"))) or "none"
        raise SettingsError(f"{PREFIX}PROFILE={chosen!r}: no file {path}; the profiles here: {names}")
    return path.resolve()


def checkout() -> Path:
    """The folder that holds the packages, the profiles, and by default the home."""
    return Path(__file__).resolve().parent.parent


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return value


def _wrong(error: ErrorDetails) -> str:
    """What is wrong, and with which setting; what was given is not repeated."""
    said = str(error.get("ctx", {}).get("error", error["msg"]))
    return f"{PREFIX}{str(error['loc'][0]).upper()}: {said}" if error["loc"] else said


# Names, separated by commas in the environment and in profiles.
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]


class ProfiledSettings(BaseSettings):
    """Settings that are read from SPRINGLINE_<NAME>, else from the file that SPRINGLINE_PROFILE names."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", hide_input_in_errors=True)

    home: Path = Field(
        default_factory=lambda: checkout() / "var", description="Folder for everything that the platform makes"
    )

    def __init__(self, **chosen: Any) -> None:
        """Read the settings, those in `chosen` first; raises `SettingsError`, naming in a line those that are wrong."""
        try:
            super().__init__(**chosen)
        except ValidationError as error:
            raise SettingsError("; ".join(_wrong(each) for each in error.errors(include_input=False))) from None

    @field_validator("home")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        """A relative one lies in the checkout, wherever the process was started."""
        return (checkout() / value.expanduser()).resolve()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        sources = (init_settings, env_settings)
        chosen = os.environ.get(f"{PREFIX}PROFILE", "")
        if not chosen:
            return sources
        file = profile_file(chosen, checkout() / "profiles")
        return (*sources, DotEnvSettingsSource(settings_cls, env_file=file))
