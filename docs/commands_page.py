"""Writes reference-commands.md: every command, from the code that declares it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from inspect import isclass
from pathlib import Path
from typing import Any

import typer

from benchmarks.__main__ import NAMES
from docs.generated_parts import non_empty_columns, table, wrap_prose
from springline.cli import app

_INTRO = """\
# Commands

Every command and what it takes. `-h` and `--help` tell the same of each. An error that was foreseen is one line on
stderr. The exit status:

| status | meaning |
|---|---|
| 0 | the command is done |
| 1 | something failed |
| 2 | the command was misused: an unknown name, a value that cannot be meant so, a setting that cannot be read |
| 3 | it is done, and what was asked about is not so: not through, lost, unproven, left in the queue, at risk |

With `--json`, stdout holds JSON and nothing else: a list is an array, one thing or the result of an action is an
object, and times are seconds since 1970 unless they are texts. What is said for people goes away; an error is still one
line on stderr. Without it, a command that takes longer than a moment shows on stderr what it is at, where stderr is a
terminal. Commands without `--json` hand on what others say, such as logs, or are shows for people.

A command belongs to the project that it is called in: the nearest folder upwards with a `springline.toml`, which
`springline init` makes, or the one that `SPRINGLINE_PROJECT` names. See [settings](settings.md).

This page is written by `make docs`; edit the functions of the commands instead.
"""
_DOCS = """\
## These documents: `python -m docs`

Writes the generated parts of the documents. With `--check` it writes nothing, and ends with 1 if anything is out of
date.
"""


def commands_page() -> str:
    """Return the whole page."""
    command: Any = typer.main.get_command(app)
    parts = [_INTRO, _options(command), *_sections("springline", command, "##")]
    rows = tuple((f"`{name}`", what) for name, what in sorted(NAMES.items()))
    benchmark_usage = (
        "`NAME`, and `--size quick` or `--size full`: measures, prints, and keeps the result in `benchmarks/results/`."
    )
    parts += [
        f"## Measurements: `python -m "
        f"benchmarks`\n\n{benchmark_usage}\n\n{table(('name', 'what is measured'), rows)}\n",
        _DOCS,
    ]
    return "\n".join(parts)


def _sections(called: str, group: Any, heading: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if not command.hidden:
            yield _section(f"{called} {name}", command, heading)
            if hasattr(command, "commands"):
                yield from _sections(f"{called} {name}", command, f"{heading}#")


def _section(called: str, command: Any, heading: str) -> str:
    parameters = _visible_parameters(command)
    usage = " ".join([called, *(_placeholder(each) for each in parameters if not _is_option(each))])
    return "\n".join([f"{heading} `{usage}`\n", f"{wrap_prose(command.help)}\n", _options(command)]).rstrip("\n") + "\n"


def _options(command: Any) -> str:
    """Return the table of a command's arguments and options; empty if it has none."""
    rows = tuple((f"`{_usage(each)}`", _default(each), each.help or "") for each in _visible_parameters(command))
    return f"{table(*non_empty_columns(('given', 'default', 'what it is'), rows))}\n" if rows else ""


def _visible_parameters(command: Any) -> list[Any]:
    return [each for each in command.params if not each.hidden and each.name != "help"]


def _is_option(parameter: Any) -> bool:
    return str(parameter.opts[0]).startswith("-")


def _placeholder(parameter: Any) -> str:
    name = str(parameter.metavar or parameter.name.strip("_").upper()).removesuffix("…")
    name += "…" if parameter.nargs == -1 else ""
    return name if parameter.required else f"[{name}]"


def _usage(parameter: Any) -> str:
    if not _is_option(parameter):
        return _placeholder(parameter)
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} {_values(parameter)}"


def _values(parameter: Any) -> str:
    kind = parameter.type_descriptor.annotation
    if isclass(kind) and issubclass(kind, Enum):
        return "|".join(str(each.value) for each in kind)
    return {int: "NUMBER", float: "NUMBER", Path: "PATH"}.get(kind, "TEXT")


def _default(parameter: Any) -> str:
    if parameter.required:
        return "must be given"
    value = parameter.default.value if isinstance(parameter.default, Enum) else parameter.default
    if value is None or value is False or value in ("", [], ()):
        return ""
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"
