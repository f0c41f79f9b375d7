"""The project that a command is about: the folder with a `springline.toml`, found upwards from the working one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

FILE = "springline.toml"
VARIABLE = "SPRINGLINE_PROJECT"


class ProjectError(ValueError):
    """SPRINGLINE_PROJECT names a folder that holds no project."""


def project_file() -> Path | None:
    """The file of the project: of the folder in SPRINGLINE_PROJECT, else of the nearest folder upwards from here.

    None where there is none. Raises `ProjectError` where the variable names a folder without one.
    """
    if chosen := os.environ.get(VARIABLE, ""):
        file = Path(chosen).expanduser().absolute() / FILE
        if not file.is_file():
            raise ProjectError(
                f"{VARIABLE}={chosen!r}: no file {file}; name the folder that has it, or unset {VARIABLE}"
            )
        return file
    try:
        here = Path.cwd()
    except FileNotFoundError:  # the folder was deleted under this process
        return None
    return next((folder / FILE for folder in (here, *here.parents) if (folder / FILE).is_file()), None)


def let_import() -> None:
    """Let modules of the project be imported by name, as `operations = ["pipeline"]` in its file names them."""
    if (file := project_file()) and (folder := str(file.parent)) not in sys.path:
        sys.path.append(folder)
