"""The suites on real servers: what failed and passes alone is flaky, what fails twice is a failure."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from springline.persistence.profile import project_folder

FAILING = """
from pathlib import Path
import pytest

FAILS = Path(FLAG)

@pytest.fixture
def server():
    if FAILS.exists():
        FORGET
        raise ValueError("the server is busy")

def test_on_a_server(server):
    pass

def test_that_passes():
    pass
"""


@pytest.mark.parametrize("fails_again", [False, True])
def test_a_test_that_fails_and_passes_alone_is_listed_as_flaky(tmp_path: Path, fails_again: bool) -> None:
    """With its error, and the suite is green; one that fails again fails the suite."""
    flag = tmp_path / "busy"
    flag.touch()
    module = FAILING.replace("FORGET", "pass" if fails_again else "FAILS.unlink()")
    (tmp_path / "test_servers.py").write_text(module.replace("FLAG", repr(str(flag))))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    suite = subprocess.run(
        [".ci/suite", "example", "-c", "pyproject.toml", "--rootdir", ".", "-p", "tests.conftest",
         "-o", f"cache_dir={tmp_path / 'cache'}", str(tmp_path)],
        cwd=project_folder(), env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert suite.returncode == int(fails_again), suite.stdout + suite.stderr
    is_listed = (
        "test_on_a_server: setup failed after 0 s\nE           ValueError: the server is busy"
        in (suite.stdout.partition("flaky: ")[2])
    )
    assert is_listed is not fails_again
