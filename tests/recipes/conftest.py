"""The wheel, built once from the checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from springline.persistence.profile import project_folder
from tests.support.installed import UV


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, as others install it."""
    folder = tmp_path_factory.mktemp("wheel")
    build = ("build", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", str(folder))
    subprocess.run([*UV, *build, str(project_folder())], check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built
