"""Writes reference-commands.md: every command of every command line, from the code that declares it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from inspect import isclass
from pathlib import Path
from typing import Any

import typer

from benchmarks.__main__ import NAMES
from docs.marked import folded, table, told_columns
from springline.persistence.cli import app as persistence
from springline.services.__main__ import app as services
from springline.spark_jobs.cli import app as spark_jobs

_PROGRAMS = (
    ("python -m springline.persistence", "Datasets", persistence),
    ("python -m springline.spark_jobs", "Operations and streams", spark_jobs),
    ("python -m springline.services", "Servers of this machine", services),
)
_INTRO = """\
# Commands

Every command line and what it takes. `--help` tells the same. An error that was foreseen is one line on stderr. The
exit status is 0 when all is done, 1 when something failed or is left to do, 2 when the command was misused: an unknown
name, a value that cannot be meant so, a setting that cannot be read.

This page is written by `make docs`; edit the functions of the commands instead.
"""
_DOCS = """\
## These documents: `python -m docs`

Writes the generated parts of the documents. With `--check` it writes nothing, and ends with 1 if anything is out of
date.
"""


def commands_page() -> str:
    """The whole page."""
    parts = [_INTRO]
    for program, title, app in _PROGRAMS:
        command: Any = typer.main.get_command(app)
        parts += [f"## {title}: `{program}`\n", f"{folded(command.help)}\n"]
        parts += _sections(program, command)
    rows = tuple((f"`{name}`", what) for name, what in sorted(NAMES.items()))
    told = (
        "`NAME`, and `--size quick` or `--size full`: measures, prints, and keeps the result in `benchmarks/results/`."
    )
    parts += [
        f"## Measurements: `python -m benchmarks`\n\n{told}\n\n{table(('name', 'what is measured'), rows)}\n",
        _DOCS,
    ]
    return "\n".join(parts)


def _sections(called: str, group: Any) -> Iterator[str]:
    for name, command in group.commands.items():
        if not command.hidden:
            yield _section(f"{called} {name}", command)
            if hasattr(command, "commands"):
                yield from _sections(f"{called} {name}", command)


def _section(called: str, command: Any) -> str:
    shown = [each for each in command.params if not each.hidden and each.name != "help"]
    usage = " ".join([called, *(_placeholder(each) for each in shown if not _is_option(each))])
    told = [f"### `{usage}`\n", f"{folded(command.help)}\n"]
    if shown:
        rows = tuple((f"`{_written(each)}`", _default(each), each.help or "") for each in shown)
        told.append(f"{table(*told_columns(('given', 'default', 'what it is'), rows))}\n")
    return "\n".join(told)


def _is_option(given: Any) -> bool:
    return str(given.opts[0]).startswith("-")


def _placeholder(given: Any) -> str:
    name = str(given.metavar or given.name.strip("_").upper()).removesuffix("…")
    name += "…" if given.nargs == -1 else ""
    return name if given.required else f"[{name}]"


def _written(given: Any) -> str:
    if not _is_option(given):
        return _placeholder(given)
    names = ", ".join([*given.opts, *given.secondary_opts])
    return names if given.is_flag else f"{names} {_values(given)}"


def _values(given: Any) -> str:
    kind = given.type_descriptor.annotation
    if isclass(kind) and issubclass(kind, Enum):
        return "|".join(str(each.value) for each in kind)
    return {int: "NUMBER", float: "NUMBER", Path: "PATH"}.get(kind, "TEXT")


def _default(given: Any) -> str:
    if given.required:
        return "must be given"
    value = given.default.value if isinstance(given.default, Enum) else given.default
    if value is None or value is False or value in ("", [], ()):
        return ""
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"
