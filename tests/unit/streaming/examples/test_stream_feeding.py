"""Sending the lines of a file: each once, in turn to the units of the topic."""

from __future__ import annotations

from pathlib import Path

import pytest

from springline.spark_jobs.streaming.examples.datagen import lines_of, send
from springline.testing.memory_log import MemoryLog


def test_the_lines_of_a_file_go_to_the_units_in_turn(tmp_path: Path) -> None:
    """As they stand, so many a message; the last message may have fewer."""
    (tmp_path / "rows.csv").write_text("a,1\nb,2\nc,3\nd,4\né,5")
    log = MemoryLog({"rows": 2})
    assert send(log, "rows", lines_of(tmp_path / "rows.csv", size=2)) == 3
    values = [[bytes(message.value) for message in unit] for unit in log.topics["rows"]]
    assert values == [[b"a,1\nb,2\n", "é,5".encode()], [b"c,3\nd,4\n"]]


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    """By its name."""
    with pytest.raises(FileNotFoundError, match=r"rows\.csv"):
        list(lines_of(tmp_path / "rows.csv", size=1))
