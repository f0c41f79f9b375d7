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

Every command with its arguments and options; `-h` and `--help` print the same. An expected error is one line on
stderr; any other one is a bug, with a traceback. Letters that the encoding of the output lacks are spelled as in JSON.
The exit status:

| status | meaning |
|---|---|
| 0 | success |
| 1 | the command failed |
| 2 | wrong usage: an unknown name, an invalid value, settings that cannot be read |
| 3 | the condition that the command checks does not hold: not completed, lost, unproven, still queued, at risk |

With `--json`, stdout contains JSON only: a list is an array; one item, or the result of an action, is an object. Times
are seconds since 1970 unless they are texts. Progress is not printed, and an error is still one line on stderr. Without
`--json`, a command that takes longer than a moment shows its progress on stderr if that is a terminal. Commands without
`--json` print the output of others, such as logs, or are demonstrations.

A command belongs to the project of its working directory: the nearest folder upwards with a `springline.toml`, which
`springline init` creates, or the one that `SPRINGLINE_PROJECT` names. See [settings](settings.md).

`make docs` writes this page from the functions of the commands.
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
