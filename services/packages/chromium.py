"""Finds a Chromium for browser tests: CHROME_BIN, else on the PATH, else installed from Debian's packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from springline.services.errors import ProgramNotFoundError

# The first draws no windows of its own: pages cost half the CPU.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_INSTALL = ("apt-get", "install", "--yes", "--no-install-recommends", "fonts-dejavu-core")
RunCommand = Callable[[Sequence[str]], None]


def find_chromium(environment: Mapping[str, str]) -> Path | None:
    """Return the Chromium of CHROME_BIN, else the first on the PATH, or None; raises `ProgramNotFoundError`."""
    path = environment.get("PATH", "")
    if program := environment.get("CHROME_BIN"):
        if executable := shutil.which(program, path=path):
            return Path(executable)
        raise ProgramNotFoundError(
            f"CHROME_BIN={program} is not a program: set it to a Chromium executable, or unset it"
        )
    return next((Path(executable) for name in _NAMES if (executable := shutil.which(name, path=path))), None)


def _run(command: Sequence[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(command, env=environment, stdout=sys.stderr, check=True)


def ensure_chromium(environment: Mapping[str, str], *, root: bool, run: RunCommand = _run) -> Path:
    """Find a Chromium, and install Debian's package if there is none and this process is `root`.

    Raises `ProgramNotFoundError`.
    """
    if program := find_chromium(environment):
        return program
    advice = "Install one (on Debian: apt install chromium), or set CHROME_BIN to its path"
    if not root or not shutil.which("apt-get", path=environment.get("PATH", "")):
        raise ProgramNotFoundError(f"no Chromium on the PATH. {advice}")
    try:
        run(("apt-get", "update"))
        try:
            run((*_INSTALL, "chromium-headless-shell"))
        except subprocess.CalledProcessError:  # a release of Debian or Ubuntu that lacks it
            run((*_INSTALL, "chromium"))
    except (OSError, subprocess.CalledProcessError) as error:
        raise ProgramNotFoundError(f"Chromium could not be installed: {error}. {advice}") from error
    if program := find_chromium(environment):
        return program
    raise ProgramNotFoundError(
        f"Debian's package of Chromium was installed, but there is no Chromium on the PATH. {advice}"
    )
