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
from springline.persistence.text.formatting import format_list
from springline.persistence.text.terminal import print_result

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")
_ENDING = ".tmpl"  # suffix of each template file, so that no tool takes it for a file of this package
_DOTFILES = ("gitignore",)


def init(
    folder: Annotated[Path, typer.Argument(help="Target folder; created if it does not exist")] = Path(),
    name: Annotated[str, typer.Option(help="Name of the project; default: name of the folder")] = "",
    as_json: Json = False,
) -> None:
    """Create a working project: a pipeline of three operations, a stream job, alerts, a DAG, tests, a README.

    Existing files are not overwritten.
    """
    folder = folder.expanduser().absolute()
    project_name = name or folder.resolve().name
    if not _NAME.fullmatch(project_name):
        raise UsageError(
            f"{project_name!r}: not a project name: use a lower-case letter, then up to 40 "
            "lower-case letters, digits, _ or -; set it with --name"
        )
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; give a folder")
    contents = render_template(project_name)
    if existing_paths := [path for path in contents if (folder / path).exists() or (folder / path).is_symlink()]:
        raise UsageError(
            f"{folder} has {format_list(existing_paths)} already, which is not overwritten: give another folder"
        )
    for path, text in contents.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    sentence = f"{project_name}: {len(contents)} files in {folder}; see README.md there for the next commands"
    result = {"name": project_name, "folder": str(folder), "files": sorted(contents)}
    print_result(as_json, result, sentence)


def render_template(name: str) -> dict[str, str]:
    """Render the template for a project of this name; returns the text of each file by its path in the project."""
    return {
        path: text.replace("{{name}}", name)
        for path, text in _read_template(files("springline.project") / "template", "")
    }


def _read_template(folder: Traversable, prefix: str) -> list[tuple[str, str]]:
    contents = []
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir():
            contents += _read_template(entry, f"{prefix}{entry.name}/")
        else:
            path = entry.name.removesuffix(_ENDING)
            contents.append((f"{prefix}{'.' if path in _DOTFILES else ''}{path}", entry.read_text(encoding="utf-8")))
    return contents
