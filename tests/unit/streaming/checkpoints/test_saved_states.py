"""States of units as datasets: saved once a version, persisted at once, put back not later than was asked for."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.checkpoints.checkpointer import Checkpointer
from springline.spark_jobs.streaming.checkpoints.store import CheckpointStore
from springline.spark_jobs.streaming.errors import MissingStateError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.runtime.history import (
    BROADCAST_INTERVAL,
    BroadcastValue,
    truncation_point,
    write_line,
)
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.state_store import StateStore
from springline.spark_jobs.streaming.runtime.step import State
from springline.testing.memory_log import MemoryLog
from tests.support.datasets.states import wipe_cache


@pytest.fixture
def stage() -> Stage:
    """A stage of one unit."""
    return Stage("reduce", "", "job.partials", job="job", stamped=True)


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    """The states of its unit."""
    return StateStore(tmp_path / "states")


def run_to(versions: StateStore, last: int) -> None:
    """Let a unit have run rounds up to `last`; each adds a run of one row, and its log goes on by ten offsets."""
    order = versions.newest() or (1, 0)
    version = versions.load(*order)
    for number in range(order[1] + 1, last + 1):
        runs = (*version.state.runs.get("rows", ()), pa.RecordBatch.from_pydict({"n": [number]}))
        version = versions.save(
            version, State({"seen": number}, {"rows": runs}), (1, number), {"offsets": {"0": number * 10}}
        )


def checkpointer_of(stage: Stage, platform: Platform, path: Path) -> tuple[Checkpointer, dict[str, Mapping[int, int]]]:
    """A checkpointer, and what it deletes: the offsets of each topic."""
    deleted: dict[str, Mapping[int, int]] = {}

    class Log(MemoryLog):
        def delete(self, topic: str, before: Mapping[int, int]) -> None:
            deleted[topic] = before

    checkpointer = Checkpointer(JobFolder(path), [stage], platform, Cluster("nowhere"), 1.0)
    checkpointer._log = Log({stage.rounds: 1})  # type: ignore[assignment]
    return checkpointer, deleted


def test_a_state_is_a_dataset_and_comes_back_as_it_was(platform: Platform, stage: Stage, store: StateStore) -> None:
    """Also from the under-store, when the cache and the states are gone."""
    states = CheckpointStore(platform)
    run_to(store, 3)
    dataset = states.save(stage, 0, store, (1, 3))
    assert dataset is not None and dataset.ref.path == "streams/job/reduce/0" and dataset.rows == 3
    before = store.load(1, 3)
    wipe_cache(platform)
    shutil.rmtree(store.folder)
    assert states.fetch(stage, 0, store, (1, 5)) == (1, 3)
    after = store.load(1, 3)
    assert after.state.scalars == before.state.scalars and after.runs == before.runs


def test_a_state_is_saved_once(platform: Platform, stage: Stage, store: StateStore) -> None:
    """Once is enough; and a state that is not there is an error."""
    states = CheckpointStore(platform)
    run_to(store, 1)
    assert states.save(stage, 0, store, (1, 1)) is not None
    assert states.save(stage, 0, store, (1, 1)) is None
    with pytest.raises(MissingStateError, match="the state after round 2 is missing"):
        states.save(stage, 0, store, (1, 2))


def test_a_later_state_than_was_asked_for_is_not_put_back(platform: Platform, stage: Stage, store: StateStore) -> None:
    """What ran after it is not known to have arrived."""
    states = CheckpointStore(platform)
    for number in (4, 2):  # late, by an abandoned worker
        run_to(store, number)
        states.save(stage, 0, store, (1, number))
    shutil.rmtree(store.folder)
    assert states.fetch(stage, 0, store, (1, 3)) == (1, 2)
    assert states.fetch(stage, 0, store, (1, 1)) is None
    assert states.fetch(stage, 0, store, (2, 0)) == (1, 4) == states.newest(stage, 0)
    assert states.load(stage, 0, (1, 3)) is None
    newest, earlier = states.load(stage, 0), states.load(stage, 0, (1, 2))
    assert newest is not None and newest.state().scalars == {"seen": 4} and newest.rows == 4
    assert earlier is not None and [run.num_rows for run in earlier.state().runs["rows"]] == [1, 1]


def test_a_log_is_needed_from_the_newest_saved_state_on(platform: Platform, stage: Stage, store: StateStore) -> None:
    """It is in the under-store by then."""
    states = CheckpointStore(platform)
    assert states.needed_from(stage, [0]) == {}
    run_to(store, 2)
    states.save(stage, 0, store, (1, 2))
    run_to(store, 5)
    assert states.needed_from(stage, [0])[0].offsets == {0: 20}


@pytest.mark.parametrize(
    ("option", "cut"), [("stamped", True), ("reads_feedback", True), ("written_by_clients", True), ("", False)]
)
def test_only_own_logs_are_cut(platform: Platform, store: StateStore, tmp_path: Path, option: str, cut: bool) -> None:
    """Up to what the persisted state needs; what clients have asked is needed by no other either."""
    options = {option: True} if option else {}
    stage = Stage("intake", "", "job.requests", job="job", **options)  # type: ignore[arg-type]
    run_to(store, 3)
    CheckpointStore(platform).save(stage, 0, store, (1, 3))
    checkpointer, deleted = checkpointer_of(stage, platform, tmp_path)
    checkpointer._truncate_logs()
    assert deleted == ({"job.requests": {0: 30}} if cut else {})


def test_feedback_is_truncated_where_all_persisted_states_are_done_with_it(platform: Platform, tmp_path: Path) -> None:
    """A state that says nothing of a unit may need all of it; nothing is cut before all units are persisted."""
    stage = Stage("join", "", "job.tuples", 2, job="job", stamped=True, feedback="job.copies")
    checkpointer, deleted = checkpointer_of(stage, platform, tmp_path)
    for unit, needs in ((0, {"0": 7, "1": 4, "2": 9}), (1, {"0": 5, "1": 6})):
        versions = StateStore(tmp_path / str(unit))
        versions.save(versions.load(1, 0), State(), (1, 1), {"offsets": {"0": 10}, "needs": needs})
        assert deleted == {}
        CheckpointStore(platform).save(stage, unit, versions, (1, 1))
        checkpointer._truncate_logs()
    assert deleted["job.copies"] == {0: 5, 1: 4, 2: 0}


def test_a_rounds_log_is_cut_where_all_contents_were_written_again() -> None:
    """So that what follows is whole without what was before."""
    lines: list[bytes] = []
    for number in range(2 * BROADCAST_INTERVAL + 2):
        if number % BROADCAST_INTERVAL == 0 and number:
            lines += [write_line(BroadcastValue(name, name)) for name in "ab"]
        lines.append(write_line(RoundPlan(1, number, 0.0, {0: (0, 0)})))
    log = [Message(offset, line) for offset, line in enumerate(lines)]
    assert truncation_point(log, (1, BROADCAST_INTERVAL - 1)) is None
    assert truncation_point(log, (1, BROADCAST_INTERVAL)) == BROADCAST_INTERVAL
    assert truncation_point(log, (1, 2 * BROADCAST_INTERVAL - 1)) == BROADCAST_INTERVAL
    assert truncation_point(log, (1, 2 * BROADCAST_INTERVAL + 1)) == 2 * BROADCAST_INTERVAL + 2
