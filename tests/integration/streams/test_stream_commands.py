"""The commands that docs/streams.md, docs/tracking.md, docs/joins.md and the README show, on the real Kafka."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from springline.persistence.profile import project_folder
from springline.services.packages.java import find_java
from tests.support.servers.servers import Running

pytestmark = pytest.mark.nightly("all commands of a page, one after the other")


@pytest.fixture
def environment(kafka: Running, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A home of the test's own, with the jobs of the checkout; other tests have jobs of these names too."""
    java = find_java(os.environ, tmp_path).environment(os.environ.get("PATH", ""))
    job_variables = {
        "SPRINGLINE_HOME": str(tmp_path),
        "SPRINGLINE_KAFKA_BOOTSTRAP_SERVERS": kafka.address,
        "COLUMNS": "140",
    }
    yield {**os.environ, **java, **job_variables, "SPRINGLINE_STREAM_STATE_DIR": str(tmp_path / "state")}
    kafka.forget_topics()


def run(environment: dict[str, str], command: str) -> str:
    """What a command prints."""
    command_line = [sys.executable, "-m", *shlex.split(command)]
    completed_process = subprocess.run(
        command_line, env=environment, cwd=project_folder(), capture_output=True, text=True, timeout=240
    )
    output = completed_process.stdout
    assert completed_process.returncode == 0, f"{command}\n{output}\n{completed_process.stderr}"
    return output


def shown(document: str) -> list[str]:
    """The commands about streams in a document."""
    text = (project_folder() / document).read_text()
    return re.findall(r"^springline (?:stream|topic) .*$", text, re.MULTILINE)


def outputs_of(environment: dict[str, str], commands: Sequence[str], last: Sequence[str]) -> list[tuple[str, str]]:
    """The verb of each command and what it prints; the `last` ones are run whatever becomes of the others."""
    outputs = []
    try:
        for command in commands:
            outputs.append((command.split()[2], run(environment, command)))
    finally:
        for command in last:
            outputs.append((command.split()[2], run(environment, command)))
    return outputs


def test_the_commands_that_are_shown_work(environment: dict[str, str]) -> None:
    """In the order in which they stand; at the end the job is stopped, what it kept is asked, and it is reset."""
    commands = [*shown("docs/streams.md"), *shown("README.md")[1:]]
    last = [command for word in (" stop ", " sql ", " rewind ", " reset ") for command in commands if word in command]
    outputs = dict(outputs_of(environment, [each for each in commands if each not in last], last))
    assert "flights" in outputs["list"] and "running" in outputs["list"]
    assert all(
        "origin" in json.loads(line) or "carrier" in json.loads(line) for line in outputs["results"].splitlines()
    )
    assert "JFK" in outputs["query"] and "JFK" in outputs["sql"] and "departures" in outputs["queries"]
    assert "before" in outputs["savepoints"] and "incarnation 2" in outputs["rewind"]
    assert "flights.results" in outputs["reset"] and "begins from scratch" in outputs["reset"]


def test_the_commands_of_tracking_that_are_shown_work(environment: dict[str, str]) -> None:
    """In the order in which they stand; the job is stopped at the end."""
    commands = [command for command in shown("docs/tracking.md") if " stop " not in command]
    everything = "".join(output for _, output in outputs_of(environment, commands, ["springline stream stop words"]))
    for phrase in ("running", "all completed", "no failed records", "epoch 2 of the ring: ackers 0, 1", '"word"'):
        assert phrase in everything, phrase


def test_the_commands_of_joins_that_are_shown_work(environment: dict[str, str]) -> None:
    """In the order in which they stand; the job is stopped at the end."""
    commands = [command for command in shown("docs/joins.md") if " stop " not in command]
    outputs = dict(outputs_of(environment, commands, ["springline stream stop shipping"]))
    assert "heavy-split-work, 2 units" in outputs["explain"] and "imbalance" in outputs["explain"]
    assert "3 units are requested" in outputs["rescale"]
    assert all("customer" in json.loads(line) for line in outputs["results"].splitlines()) and outputs["results"]
