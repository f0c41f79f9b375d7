"""The commands that show settings: their values, and where they come from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from dotenv import dotenv_values

from springline.persistence.commands.arguments import Json
from springline.persistence.errors import UsageError
from springline.persistence.profile import PREFIX, active_profile_file, project_settings, settings_classes
from springline.persistence.project import project_file
from springline.persistence.text.formatting import suggest
from springline.persistence.text.redaction import redact_secrets
from springline.persistence.text.terminal import print, print_json


@dataclass(frozen=True, slots=True)
class Setting:
    """The current state of a setting: environment variable, value without secrets, source, and description."""

    name: str
    value: object
    source: str  # "default", "environment", or the file
    help: str


def list_settings(as_json: Json = False) -> None:
    """List all settings with their current values, and where each comes from unless it is the default."""
    settings = list(_read_settings())
    if as_json:
        print_json([asdict(setting) for setting in settings])
        return
    for setting in settings:
        source = "" if setting.source == "default" else f"  ({Path(setting.source).name})"
        print(f"{setting.name}={_format_value(setting.value)}{source}\n    {setting.help}")


def get_setting(
    name: Annotated[str, typer.Argument(help="A setting, such as SPRINGLINE_CACHE_CAPACITY or cache_capacity")],
    as_json: Json = False,
) -> None:
    """Print the current value of one setting."""
    settings = {setting.name: setting for setting in _read_settings()}
    variable = PREFIX + name.upper().removeprefix(PREFIX)
    if variable not in settings:
        suggestion = suggest(variable, settings)
        raise UsageError(
            f"unknown setting {name!r}" + (f"; did you mean {suggestion}?" if suggestion else "; see `config list`")
        )
    setting = settings[variable]
    if as_json:
        print_json(asdict(setting))
    else:
        print(_format_value(setting.value))


def _read_settings() -> Iterator[Setting]:
    """Yield every setting once; the classes share the home."""
    names: set[str] = set()
    sources = _read_sources()
    for settings_class in settings_classes():
        current = settings_class()
        for name in settings_class.model_fields:
            if name not in names:
                variable = PREFIX + name.upper()
                source = sources.get(variable, "default")
                yield Setting(variable, _without_secrets(getattr(current, name)), source, settings_class.help_of(name))
        names |= set(settings_class.model_fields)


def _read_sources() -> dict[str, str]:
    """Return the source of the value by variable, for those that are set."""
    file = active_profile_file()
    return {
        **{f"{PREFIX}{name.upper()}": str(project_file()) for name in project_settings()},
        **(dict.fromkeys(dotenv_values(file), str(file)) if file else {}),
        **dict.fromkeys(os.environ, "environment"),
    }


def _without_secrets(value: object) -> object:
    """Return a value as JSON types, without passwords and tokens."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {name: redact_secrets(f"{name}={text}").partition("=")[2] for name, text in value.items()}
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else redact_secrets(str(value))


def _format_value(value: object) -> str:
    """Return a value as it would be written in the environment."""
    if value is None:
        return ""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
