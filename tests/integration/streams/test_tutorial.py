"""docs/tutorial.md: its files and its commands, run by one shell in an empty folder, on the real Kafka."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.console import examples_in, outputs_match, outputs_of
from springline.persistence.profile import project_folder
from springline.services.packages.java import find_java
from tests.support.servers.servers import Running

pytestmark = pytest.mark.nightly("all commands of the tutorial, one after the other")

TUTORIAL = project_folder() / "docs" / "tutorial.md"
RUN_ELSEWHERE = {  # what makes ready and tidies up: the environment of the tests, their Kafka, and their folder
    "make setup",
    "source .venv/bin/activate",
    "springline up kafka",
    "mkdir -p var/coffee",
    "export PYTHONPATH=$PWD/var/coffee",
    "cd var/coffee",
    "unset SPRINGLINE_HOME    # Kafka was started in the checkout's own",
    "springline down kafka",
    "cd ../.. && rm -r var/coffee",
}


@pytest.fixture
def environment(kafka: Running, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Leads to this test's Kafka and folders; streams that still run at the end are stopped."""
    java = find_java(os.environ, tmp_path).environment(os.environ.get("PATH", ""))
    server_variables = {
        "JAVA_HOME": java["JAVA_HOME"],
        "SPRINGLINE_KAFKA_BOOTSTRAP_SERVERS": kafka.address,
        "SPRINGLINE_CACHE_URI": f"file://{tmp_path}/cache",
        "SPRINGLINE_STREAM_STATE_DIR": str(tmp_path / "state"),
        "COLUMNS": "140",
    }
    yield server_variables
    job_variables = {
        "SPRINGLINE_HOME": str(tmp_path / "home"),
        "SPRINGLINE_STREAMS_FILE": str(tmp_path / "streams.toml"),
    }
    stop = [sys.executable, "-m", "springline", "stream", "stop", "--quiet"]
    subprocess.run(
        stop, env={**os.environ, **server_variables, **job_variables}, cwd=project_folder(), check=True, timeout=120
    )


def test_the_tutorial_prints_what_it_shows(tmp_path: Path, environment: dict[str, str]) -> None:
    """Every file and every command, in their order."""
    text = TUTORIAL.read_text(encoding="utf-8")
    printed = outputs_of(text, tmp_path, environment, seconds=400)
    examples = examples_in(text)
    assert len(printed) == len(examples)
    for example, output in zip(examples, printed, strict=True):
        assert outputs_match(example.output, output), f"$ {example.command}\n{output}"


def test_only_making_ready_and_tidying_up_is_left_out() -> None:
    """The tests run every command of the page."""
    text = TUTORIAL.read_text(encoding="utf-8")
    shown = "".join(re.findall(r"^```sh\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL))
    assert set(shown.splitlines()) == RUN_ELSEWHERE
