"""Sources of settings: the environment, then the selected profile, then the project's file."""

from __future__ import annotations

import json
import logging
import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from dotenv import dotenv_values
from pydantic import BeforeValidator, Field, SecretStr, ValidationError, field_validator, model_validator
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
from springline.persistence.text.formatting import parse_bytes, parse_json_object, suggest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

PREFIX = "SPRINGLINE_"

# The modules that declare settings, those that import quickly first.
MODULES = (
    "springline.persistence.settings",
    "springline.persistence.monitoring.settings",
    "springline.spark_jobs.settings",
    "springline.services.settings",
    "springline.spark_jobs.streaming.settings",
    "springline.spark_jobs.streaming.sources.settings",
)
# Variables of ours that no settings class reads.
_UNDECLARED = frozenset({
    "PROFILE", "PROJECT", "SERVICE_TOKEN", "WORKER_PYTHON", "STEP_MODULES", "SECRET_DEFAULTS",
})  # fmt: skip

_AUTHORITY = re.compile(r"[a-zA-Z][\w+.-]*://([^/?#]*)")

logger = logging.getLogger("springline.settings")


def profile_file(name_or_path: str, profiles: Path) -> Path:
    """Return the file of a profile: `name_or_path` is a path, or the name of a file NAME.env in `profiles`.

    Raises `SettingsError`, naming the available profiles.
    """
    path = Path(name_or_path).expanduser() if os.sep in name_or_path else profiles / f"{name_or_path}.env"
    if not path.is_file():
        names = ", ".join(sorted(each.stem for each in profiles.glob("*.env"))) or "none"
        raise SettingsError(f"{PREFIX}PROFILE={name_or_path!r}: {path} does not exist; available profiles: {names}")
    return path.resolve()


def active_profile_file() -> Path | None:
    """Return the file that SPRINGLINE_PROFILE selects, else `default.env` if it exists; raises `SettingsError`."""
    profiles = project_folder() / "profiles"
    name_or_path = os.environ.get(f"{PREFIX}PROFILE", "")
    file = profile_file(name_or_path, profiles) if name_or_path else profiles / "default.env"
    if not file.is_file():
        return None
    try:
        file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{file}: not UTF-8 ({error.reason} at byte {error.start}): save it as UTF-8") from None
    return file


def project_folder() -> Path:
    """Return the folder with the profiles, the declarations and the home, unless settings name others.

    It is the folder of the project that a process works in (`springline.toml`), else the checkout; if Springline
    was installed as a package, it is `~/springline`.
    """
    if file := project_file():
        return file.parent
    here = Path(__file__).resolve().parent.parent
    return here if (here / "pyproject.toml").is_file() else Path.home() / "springline"


def import_root() -> Path:
    """Return the folder that `springline` was imported from: a started process needs it on its PYTHONPATH."""
    return Path(__file__).absolute().parents[2]  # not resolved: the folders of the package are links in the checkout


def _split_names(value: object) -> object:
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return value


def _format_error(error: ErrorDetails) -> str:
    """Describe a validation error with the setting's name; the value is not repeated."""
    message = str(error.get("ctx", {}).get("error", error["msg"]))
    return f"{PREFIX}{str(error['loc'][0]).upper()}: {message}" if error["loc"] else message


# Names, separated by commas in the environment and in profiles.
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_names)]
# A number of bytes: 8000000000, 8GB or 7.5GiB.
Bytes = Annotated[int, BeforeValidator(parse_bytes)]
# Bytes per second: 50000000 or 50MB.
Bandwidth = Annotated[float, BeforeValidator(parse_bytes)]
# Strings by name, a JSON object in the environment and in profiles.
JsonObject = Annotated[dict[str, str], NoDecode, BeforeValidator(parse_json_object)]
# The same with secret strings, which are never displayed.
SecretObject = Annotated[dict[str, SecretStr], NoDecode, BeforeValidator(parse_json_object)]
_FOLDER_OR_URI = "a folder or a URI"
FolderOrUri = Annotated[str, _FOLDER_OR_URI]  # a relative folder in the project's file is in the project's folder


def unknown_settings(names: frozenset[str]) -> dict[str, str]:
    """Return which of these names of SPRINGLINE_<NAME> no package reads, each with the closest known one, or ""."""
    allowed = set(_UNDECLARED)
    if names <= allowed:
        return {}
    for each in settings_classes():
        allowed |= {name.upper() for name in each.model_fields}
        if names <= allowed:
            return {}
    return {name: suggest(name, allowed) for name in sorted(names - allowed)}


def settings_classes() -> Iterator[type[ProfiledSettings]]:
    """Yield every class that declares settings, except for parts whose packages are not installed."""
    for module in MODULES:
        try:
            declared = vars(import_module(module)).values()
        except ModuleNotFoundError:
            continue
        for each in declared:
            if isinstance(each, type) and issubclass(each, ProfiledSettings) and each.__module__ == module:
                yield each


def project_settings() -> dict[str, Any]:
    """Return the settings in the project's file, by name; raises `SettingsError` if it is not valid TOML."""
    file = project_file()
    if file is None:
        return {}
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: not valid TOML: {error}") from None


def setting_variables() -> dict[str, str]:
    """Return the settings that the environment, the profile and the project's file set, as variables.

    Another process with these variables has the same settings, wherever it runs. Raises `SettingsError`.
    """
    project_values = project_settings()
    variables = {
        f"{PREFIX}{name.upper()}": _as_text(_resolve_project_value(name, project_values[name], each))
        for each in settings_classes()
        for name in project_values.keys() & each.model_fields.keys()
    }
    if file := active_profile_file():
        variables |= {name: value for name, value in dotenv_values(file).items() if value is not None}
    variables |= os.environ
    return {
        name: value
        for name, value in variables.items()
        if name.startswith(PREFIX) and name.removeprefix(PREFIX) not in _UNDECLARED
    }


def _as_text(value: object) -> str:
    """Return a value of the project's file as the environment would have it."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return json.dumps(value) if isinstance(value, dict | bool) else str(value)


def _resolve_project_value(name: str, value: object, settings: type[BaseSettings]) -> object:
    """Resolve a relative path in the project's file against the folder of the project; other values are unchanged."""
    field = settings.model_fields.get(name)
    if field is None or not isinstance(value, str) or not value:
        return value
    if _FOLDER_OR_URI in field.metadata and "://" not in value:
        return str(project_folder() / Path(value).expanduser())
    if field.annotation in (Path, Path | None):
        return project_folder() / Path(value).expanduser()
    return value


@cache
def _warn_of_unknown(names: frozenset[str], source: str) -> None:
    """Warn once per process: with a misspelt setting, the default would silently stay in force."""
    for name, near in unknown_settings(names).items():
        suggestion = f"; did you mean {PREFIX}{near}?" if near else ""
        logger.warning("%s: %s%s is not a setting and has no effect%s", source, PREFIX, name, suggestion)


def _setting_names(variables: Iterable[str]) -> frozenset[str]:
    return frozenset(each.removeprefix(PREFIX) for each in variables if each.startswith(PREFIX))


class ProfiledSettings(BaseSettings):
    """Settings read from SPRINGLINE_<NAME>, else from the file that SPRINGLINE_PROFILE names, else from the project's.

    The project's file is `springline.toml`, in the working directory or above it; its keys are the names in lower
    case, as `cache_capacity = "8GB"`.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", hide_input_in_errors=True, allow_inf_nan=False)

    home: Path = Field(
        default_factory=lambda: project_folder() / "var", description="Folder for everything that the platform creates"
    )

    def __init__(self, **overrides: Any) -> None:
        """Read the settings; `overrides` take precedence. Raises `SettingsError`, naming the invalid ones.

        Raises `TypeError` if one of `overrides` is not a setting of this class.
        """
        if unknown := sorted(set(overrides) - set(type(self).model_fields)):
            raise TypeError(f"{type(self).__name__}: no such setting: {', '.join(unknown)}")
        try:
            super().__init__(**overrides)
        except ValidationError as error:
            raise SettingsError("; ".join(_format_error(each) for each in error.errors(include_input=False))) from None
        _warn_of_unknown(_setting_names(os.environ), "environment")
        if file := active_profile_file():
            _warn_of_unknown(_setting_names(dotenv_values(file)), str(file))
        if project_values := project_settings():
            _warn_of_unknown(frozenset(name.upper() for name in project_values), str(project_file()))

    @classmethod
    def help_of(cls, name: str) -> str:
        """Return the description of a setting, in one line."""
        return cls.model_fields[name].description or ""

    @field_validator("home")
    @classmethod
    def _resolve_home(cls, value: Path) -> Path:
        """Resolve a relative home against the folder of the project, regardless of the working directory."""
        return (project_folder() / value.expanduser()).resolve()

    @model_validator(mode="after")
    def _check_addresses(self) -> Self:
        """Refuse an address in which it is not clear where the password ends: errors would contain the rest of it."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            text = value.get_secret_value() if isinstance(value, SecretStr) else value
            if isinstance(text, str) and (authority := _AUTHORITY.match(text)) and authority[1].count("@") > 1:
                raise ValueError(f"{PREFIX}{name.upper()}: an @ in a user or a password is written as %40")
        return self

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
        if file := active_profile_file():
            sources = (*sources, DotEnvSettingsSource(settings_cls, env_file=file))
        if project_values := project_settings():
            resolved_values = {
                name: _resolve_project_value(name, value, settings_cls) for name, value in project_values.items()
            }
            sources = (*sources, InitSettingsSource(settings_cls, init_kwargs=resolved_values))
        return sources
