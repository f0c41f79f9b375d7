"""Installs an example package of tests/extensions, for processes that a test starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from springline.persistence.profile import project_folder
from tests.support.installed import UV

FOLDER = project_folder() / "tests" / "extensions"


def installed(name: str, folder: Path) -> dict[str, str]:
    """Build and install the package in tests/extensions/NAME into `folder`; returns an environment that has it.

    The package's folder is copied first, so that building leaves nothing in it.
    """
    source, site = folder / f"{name}-source", folder / f"{name}-site"
    shutil.copytree(FOLDER / name, source)
    options = ["--quiet", "--offline", "--no-deps", "--no-build-isolation", "--python", sys.executable]
    subprocess.run([*UV, "pip", "install", *options, "--target", str(site), str(source)], check=True)
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path}
