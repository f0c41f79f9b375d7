"""The project of a command: the folder with a `springline.toml`, searched upwards from the working directory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

FILE = "springline.toml"
VARIABLE = "SPRINGLINE_PROJECT"


class ProjectError(ValueError):
    """SPRINGLINE_PROJECT names a folder that contains no project."""

    exit_status = 2


def project_file() -> Path | None:
    """Return the project's file: in the folder of SPRINGLINE_PROJECT, else in the nearest folder upwards from here.

    None if there is none. Raises `ProjectError` if the variable names a folder without one.
    """
    if folder_name := os.environ.get(VARIABLE, ""):
        file = Path(folder_name).expanduser().absolute() / FILE
        if not file.is_file():
            raise ProjectError(
                f"{VARIABLE}={folder_name!r}: {file} does not exist; set {VARIABLE} "
                f"to the folder that contains it, or unset it"
            )
        return file
    try:
        here = Path.cwd()
    except FileNotFoundError:  # the folder was deleted while this process was in it
        return None
    return next((folder / FILE for folder in (here, *here.parents) if (folder / FILE).is_file()), None)


def add_project_to_path() -> None:
    """Make modules of the project importable, as `operations = ["pipeline"]` in its file names them."""
    if (file := project_file()) and (folder := str(file.parent)) not in sys.path:
        sys.path.append(folder)
