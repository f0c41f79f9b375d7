"""A join that goes back to its beginning, and the savepoints that it does not have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from springline.spark_jobs.streaming.commands.savepoints import rewind, savepoint
from springline.spark_jobs.streaming.errors import UnknownSavepointError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.join.rebalance import (
    ROUTING,
    _write_controller_state,
    prepare_routing,
    read_controller_state,
    reset_routing,
)
from springline.spark_jobs.streaming.join.routing.controller import RebalanceConfig
from springline.spark_jobs.streaming.join.wire import KeyBand
from springline.spark_jobs.streaming.runtime.atomic_files import read_json

CONTROL, EQUALITY = RebalanceConfig(2), KeyBand(0, 0)
DECLARED = """
[pairs]
kind = "join"
on = "l.k = r.k"
[pairs.left]
topic = "one"
fields = [["k", "int"]]
[pairs.right]
topic = "two"
fields = [["k", "int"]]
"""


def test_epochs_and_pieces_go_on_being_counted(tmp_path: Path) -> None:
    """So that no copy of before is taken for one of after."""
    folder = JobFolder(tmp_path)
    prepare_routing(folder, CONTROL, 4, EQUALITY)
    first = read_controller_state(folder)
    assert first is not None
    _write_controller_state(folder, replace(first, table=replace(first.table, epoch=7), next_id=12))
    reset_routing(folder, CONTROL, 4, EQUALITY)
    controller_state = read_controller_state(folder)
    assert controller_state is not None
    assert (controller_state.table.epoch, controller_state.next_id) == (8, 12)
    assert (controller_state.copying, controller_state.pending) == ((), ())
    assert read_json(tmp_path / ROUTING) == controller_state.table.as_json()
    assert replace(controller_state.table, epoch=1) == replace(first.table, epoch=1)


def test_a_join_that_never_ran_has_nothing_to_forget(tmp_path: Path) -> None:
    """It begins with its first epoch later."""
    reset_routing(JobFolder(tmp_path), CONTROL, 4, EQUALITY)
    assert read_controller_state(JobFolder(tmp_path)) is None


def test_a_join_has_no_savepoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is one made, nor gone back to; the words say what can be done."""
    (tmp_path / "streams.toml").write_text(DECLARED)
    monkeypatch.setenv("SPRINGLINE_STREAMS_FILE", str(tmp_path / "streams.toml"))
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path))
    for command in (lambda: savepoint("pairs", "monday"), lambda: rewind("pairs", "monday")):
        with pytest.raises(UnknownSavepointError, match="pairs: a join can only be rewound to its beginning"):
            command()
