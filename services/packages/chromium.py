"""Finds a Chromium for the tests that look at pages: CHROME_BIN, else on the PATH, else out of Debian's packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from springline.services.errors import ProgramNotFoundError

_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_INSTALL = (
    ("apt-get", "update"),
    ("apt-get", "install", "--yes", "--no-install-recommends", "chromium", "fonts-dejavu-core"),
)
Run = Callable[[Sequence[str]], None]


def find_chromium(environment: Mapping[str, str]) -> Path | None:
    """The Chromium of CHROME_BIN, else the first on the PATH; None if there is none. Raises `ProgramNotFoundError`."""
    path = environment.get("PATH", "")
    if chosen := environment.get("CHROME_BIN"):
        if found := shutil.which(chosen, path=path):
            return Path(found)
        raise ProgramNotFoundError(f"CHROME_BIN={chosen} is no program: set it to a Chromium, or unset it")
    return next((Path(found) for name in _NAMES if (found := shutil.which(name, path=path))), None)


def _run(command: Sequence[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(command, env=environment, stdout=sys.stderr, check=True)


def have_chromium(environment: Mapping[str, str], *, root: bool, run: Run = _run) -> Path:
    """The same, but where there is none it is installed from Debian's packages, if `root` may.

    Else `ProgramNotFoundError`.
    """
    if found := find_chromium(environment):
        return found
    advice = "Install one (on Debian: apt install chromium), or set CHROME_BIN to one that is elsewhere"
    if not root or not shutil.which("apt-get", path=environment.get("PATH", "")):
        raise ProgramNotFoundError(f"no Chromium on the PATH. {advice}")
    try:
        for command in _INSTALL:
            run(command)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ProgramNotFoundError(f"Chromium could not be installed: {error}. {advice}") from error
    if found := find_chromium(environment):
        return found
    raise ProgramNotFoundError(f"Debian's package chromium has left no Chromium on the PATH. {advice}")
