"""Where settings come from: the environment, then the profile that is chosen by name, then the project's file."""

from __future__ import annotations

import logging
import os
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dotenv import dotenv_values
from pydantic import BeforeValidator, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from springline.persistence.project import project_file
from springline.persistence.text.formatting import parse_bytes, parse_json_object, say_near

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

PREFIX = "SPRINGLINE_"

# Each module that declares settings, those that are quick to import first.
MODULES = (
    "springline.persistence.settings",
    "springline.persistence.monitoring.settings",
    "springline.spark_jobs.settings",
    "springline.services.settings",
    "springline.spark_jobs.streaming.settings",
)
# Variables of ours that no class of settings reads.
_OTHERS = frozenset({"PROFILE", "PROJECT", "SERVICE_TOKEN", "WORKER_PYTHON"})

logger = logging.getLogger("springline.settings")


def profile_file(chosen: str, profiles: Path) -> Path:
    """The file of a profile: `chosen` is a path, or the name of a file NAME.env in `profiles`.

    Raises `SettingsError`, naming the profiles that there are.
    """
    path = Path(chosen).expanduser() if os.sep in chosen else profiles / f"{chosen}.env"
    if not path.is_file():
        names = ", ".join(sorted(each.stem for each in profiles.glob("*.env"))) or "none"
        raise SettingsError(f"{PREFIX}PROFILE={chosen!r}: no file {path}; the profiles here: {names}")
    return path.resolve()


def chosen_profile() -> Path | None:
    """The file that SPRINGLINE_PROFILE chooses, else `default.env`, where there is one; raises `SettingsError`."""
    profiles = project_folder() / "profiles"
    if chosen := os.environ.get(f"{PREFIX}PROFILE", ""):
        return profile_file(chosen, profiles)
    return default if (default := profiles / "default.env").is_file() else None


def project_folder() -> Path:
    """The folder that holds the profiles, the declarations and the home, where no setting says otherwise.

    It is the folder of the project that a process works in (`springline.toml`), else the checkout; where Springline
    was installed as a package, it is `~/springline`.
    """
    if file := project_file():
        return file.parent
    here = Path(__file__).resolve().parent.parent
    return here if (here / "pyproject.toml").is_file() else Path.home() / "springline"


def import_root() -> Path:
    """The folder that `springline` was imported from: what a process that is started needs on its PYTHONPATH."""
    return Path(__file__).absolute().parents[2]  # not resolved: the folders of the package are links in the checkout


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
# A number of bytes: 8000000000, 8GB or 7.5GiB.
Bytes = Annotated[int, BeforeValidator(parse_bytes)]
# Bytes a second: 50000000 or 50MB.
Bandwidth = Annotated[float, BeforeValidator(parse_bytes)]
# Texts by name, a JSON object in the environment and in profiles.
JsonObject = Annotated[dict[str, str], NoDecode, BeforeValidator(parse_json_object)]
# The same, of texts that are shown to nobody.
SecretObject = Annotated[dict[str, SecretStr], NoDecode, BeforeValidator(parse_json_object)]


def unknown_settings(given: frozenset[str]) -> dict[str, str]:
    """Which of these names of SPRINGLINE_<NAME> no package reads, each with the nearest that one does read, or ""."""
    known = set(_OTHERS)
    if given <= known:
        return {}
    for each in settings_classes():
        known |= {name.upper() for name in each.model_fields}
        if given <= known:
            return {}
    return {name: say_near(name, known) for name in sorted(given - known)}


def settings_classes() -> Iterator[type[ProfiledSettings]]:
    """Every class that declares settings, those of parts whose packages are not installed left out."""
    for module in MODULES:
        try:
            declared = vars(import_module(module)).values()
        except ModuleNotFoundError:
            continue
        for each in declared:
            if isinstance(each, type) and issubclass(each, ProfiledSettings) and each.__module__ == module:
                yield each


def project_settings() -> dict[str, Any]:
    """The settings in the project's file, by name; raises `SettingsError` where it is no TOML."""
    file = project_file()
    if file is None:
        return {}
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: is no TOML: {error}") from None


def _in_project(name: str, value: object, settings: type[BaseSettings]) -> object:
    """A value of the project's file; a relative path in it starts at the folder of the project."""
    field = settings.model_fields.get(name)
    if field is not None and isinstance(value, str) and value and field.annotation in (Path, Path | None):
        return project_folder() / Path(value).expanduser()
    return value


@cache
def _warn_of_unknown(given: frozenset[str], where: str) -> None:
    """Once a process: a misspelt setting leaves its default in force, which nobody would notice."""
    for name, near in unknown_settings(given).items():
        meant = f"; did you mean {PREFIX}{near}?" if near else ""
        logger.warning("%s: %s%s is no setting and changes nothing%s", where, PREFIX, name, meant)


def _names(variables: Iterable[str]) -> frozenset[str]:
    return frozenset(each.removeprefix(PREFIX) for each in variables if each.startswith(PREFIX))


class ProfiledSettings(BaseSettings):
    """Settings: read from SPRINGLINE_<NAME>, else from the file that SPRINGLINE_PROFILE names, else the project's.

    The project's file is `springline.toml`, in the working directory or above it; its keys are the names in small
    letters, as `cache_capacity = "8GB"`.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", hide_input_in_errors=True)

    home: Path = Field(
        default_factory=lambda: project_folder() / "var", description="Folder for everything that the platform makes"
    )

    def __init__(self, **chosen: Any) -> None:
        """Read the settings, those in `chosen` first; raises `SettingsError`, naming in a line those that are wrong."""
        try:
            super().__init__(**chosen)
        except ValidationError as error:
            raise SettingsError("; ".join(_wrong(each) for each in error.errors(include_input=False))) from None
        _warn_of_unknown(_names(os.environ), "environment")
        if file := chosen_profile():
            _warn_of_unknown(_names(dotenv_values(file)), str(file))
        if given := project_settings():
            _warn_of_unknown(frozenset(name.upper() for name in given), str(project_file()))

    @classmethod
    def help_of(cls, name: str) -> str:
        """What a setting is, in one line."""
        return cls.model_fields[name].description or ""

    @field_validator("home")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        """A relative one lies in the folder of the project, wherever the process was started."""
        return (project_folder() / value.expanduser()).resolve()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        sources: tuple[PydanticBaseSettingsSource, ...] = (init_settings, env_settings)
        if file := chosen_profile():
            sources = (*sources, DotEnvSettingsSource(settings_cls, env_file=file))
        if given := project_settings():
            own = {name: _in_project(name, value, settings_cls) for name, value in given.items()}
            sources = (*sources, InitSettingsSource(settings_cls, init_kwargs=own))
        return sources
