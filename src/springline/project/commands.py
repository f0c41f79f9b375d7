"""The command `springline init`."""

from __future__ import annotations

import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from springline.persistence.commands.arguments import Json
from springline.persistence.errors import UsageError
from springline.persistence.text.formatting import say_list
from springline.persistence.text.terminal import print_result

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")
_ENDING = ".tmpl"  # of each file of the template: no tool takes it for a file of this package
_DOTTED = ("gitignore",)


def init(
    folder: Annotated[Path, typer.Argument(help="Where to; it is made where it is not there")] = Path(),
    name: Annotated[str, typer.Option(help="What it is called; default: as the folder")] = "",
    as_json: Json = False,
) -> None:
    """Make a project that runs: a pipeline of three operations, a stream job, alerts, a DAG, tests, a README.

    Nothing that is there is overwritten.
    """
    folder = folder.expanduser().absolute()
    called = name or folder.resolve().name
    if not _NAME.fullmatch(called):
        raise UsageError(
            f"{called!r}: a project's name begins with a small letter, then follow small letters, digits, _ and -, at "
            "most 41 in all; give another one with --name"
        )
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; name a folder")
    contents = template(called)
    if there := [path for path in contents if (folder / path).exists() or (folder / path).is_symlink()]:
        raise UsageError(f"{folder} has {say_list(there)} already, and nothing is overwritten: name another folder")
    for path, text in contents.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as fresh:
            fresh.write(text)
    sentence = f"{called}: {len(contents)} files in {folder}; README.md there has the commands to type next"
    result = {"name": called, "folder": str(folder), "files": sorted(contents)}
    print_result(as_json, result, sentence)


def template(name: str) -> dict[str, str]:
    """The files of a project of this name, by their path in it."""
    return {path: text.replace("{{name}}", name) for path, text in _read(files("springline.project") / "template", "")}


def _read(folder: Traversable, beginning: str) -> list[tuple[str, str]]:
    found = []
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir():
            found += _read(entry, f"{beginning}{entry.name}/")
        else:
            path = entry.name.removesuffix(_ENDING)
            found.append((f"{beginning}{'.' if path in _DOTTED else ''}{path}", entry.read_text(encoding="utf-8")))
    return found
