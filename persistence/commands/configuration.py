"""The commands that show settings: what each is now, and where that comes from."""

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
from springline.persistence.profile import PREFIX, chosen_profile, project_settings, settings_classes
from springline.persistence.project import project_file
from springline.persistence.text.formatting import say_near
from springline.persistence.text.redaction import redacted
from springline.persistence.text.terminal import print, print_json


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting as it is now: its environment variable, its value without secrets, where that is from, what it is."""

    name: str
    value: object
    source: str  # "default", "environment", or the file
    help: str


def list_settings(as_json: Json = False) -> None:
    """List all settings: what each is now, and whether that is its default or from where it comes."""
    settings = list(_settings())
    if as_json:
        print_json([asdict(setting) for setting in settings])
        return
    for setting in settings:
        source = "" if setting.source == "default" else f"  ({Path(setting.source).name})"
        print(f"{setting.name}={_written(setting.value)}{source}\n    {setting.help}")


def get_setting(
    name: Annotated[str, typer.Argument(help="A setting, such as SPRINGLINE_CACHE_CAPACITY or cache_capacity")],
    as_json: Json = False,
) -> None:
    """Print what one setting is now."""
    settings = {setting.name: setting for setting in _settings()}
    asked = PREFIX + name.upper().removeprefix(PREFIX)
    if asked not in settings:
        near = say_near(asked, settings)
        raise UsageError(
            f"no setting is called {name!r}" + (f"; did you mean {near}?" if near else "; see `config list`")
        )
    setting = settings[asked]
    if as_json:
        print_json(asdict(setting))
    else:
        print(_written(setting.value))


def _settings() -> Iterator[Setting]:
    """Every setting once; the classes share the home."""
    names: set[str] = set()
    sources = _sources()
    for declared in settings_classes():
        now = declared()
        for name in declared.model_fields:
            if name not in names:
                variable = PREFIX + name.upper()
                source = sources.get(variable, "default")
                yield Setting(variable, _without_secrets(getattr(now, name)), source, declared.help_of(name))
        names |= set(declared.model_fields)


def _sources() -> dict[str, str]:
    """By variable, where its value comes from, of those that are set."""
    file = chosen_profile()
    return {
        **{f"{PREFIX}{name.upper()}": str(project_file()) for name in project_settings()},
        **(dict.fromkeys(dotenv_values(file), str(file)) if file else {}),
        **dict.fromkeys(os.environ, "environment"),
    }


def _without_secrets(value: object) -> object:
    """A value as JSON has it, passwords and tokens left out."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {name: redacted(f"{name}={text}").partition("=")[2] for name, text in value.items()}
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else redacted(str(value))


def _written(value: object) -> str:
    """A value as it would be written into the environment."""
    if value is None:
        return ""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
