"""What steers a join: which copies are whole, what is written in which order, and what mends what was not."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.errors import InvalidJobError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.join import rebalance
from springline.spark_jobs.streaming.join.rebalance import (
    ROUTING,
    CopyTopicIndex,
    _write_controller_state,
    prepare_routing,
    read_controller_state,
    read_explanation,
    reset_routing,
)
from springline.spark_jobs.streaming.join.routing.controller import RebalanceConfig
from springline.spark_jobs.streaming.join.task.migration import encode_copy
from springline.spark_jobs.streaming.join.wire import JoinSide, KeyBand, StateMigration
from springline.spark_jobs.streaming.runtime.atomic_files import read_json, write_json
from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes
from springline.testing.memory_log import MemoryLog
from tests.support.joins.join_simulation import JoinSimulation, join_of

EQUAL = KeyBand(0, 0)
CONTROL = RebalanceConfig(2, migration_tuples=5, min_tuples=1)
SCHEMA = pa.schema([("key", pa.int64()), ("seq", pa.int64())])


def parts(id_: int, giver: int, many: int) -> list[bytes]:
    """A piece of so many messages, of two tuples each."""
    batches = [pa.record_batch([[1, 2], [3, 4]], schema=SCHEMA) for _ in range(many)]
    return [
        arrow_bytes(part) for part in encode_copy(StateMigration(id_, JoinSide.LEFT, giver, 0, (1, 2)), SCHEMA, batches)
    ]


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    """A job's folder."""
    return JobFolder(tmp_path / "j")


@pytest.fixture
def simulation(tmp_path: Path) -> JoinSimulation:
    """A join of two units whose rounds have started, with rows to move."""
    join_simulation = JoinSimulation(join_of("l.k = r.k", CONTROL), tmp_path, random.Random(1))
    for topic in ("left", "right"):
        join_simulation.feed(topic, [(number, number * 7, 0) for number in range(40)], 2)
    return join_simulation


def test_only_pieces_that_are_whole_are_found() -> None:
    """With where they lie and how many tuples they have; a part that comes twice counts once."""
    log = MemoryLog({"copies": 3})
    copies, (first, second), other = CopyTopicIndex(log, "copies", 3), parts(7, 1, 2), parts(8, 2, 1)
    log.put("copies", 1, first)
    assert copies.complete_copies([1, 2]) == {}
    log.put("copies", 1, first)
    assert copies.complete_copies([1]) == {}
    log.put("copies", 1, second)
    log.put("copies", 2, other[0])
    high = log.offset_bounds("copies")[1].high
    copy_ranges = copies.complete_copies([1])
    assert set(copy_ranges) == {7} and copy_ranges[7][0] == 0 and copy_ranges[7][2] == 4
    assert len(list(log.fetch("copies", 1, *copy_ranges[7][:2]))) == 3 and copy_ranges[7][1] <= high
    assert copies.complete_copies([2])[8] == (0, 1, 2)
    assert copies.complete_copies([])[7] == copy_ranges[7]


def test_pieces_that_lie_between_each_other_are_distinguished() -> None:
    """The offsets of a piece may hold parts of another one; one without tuples is whole with its one message."""
    log = MemoryLog({"copies": 2})
    for one, two in zip(parts(1, 0, 2), parts(2, 0, 2), strict=True):
        log.put("copies", 0, one)
        log.put("copies", 0, two)
    log.put("copies", 1, parts(3, 1, 0)[0])
    copy_ranges = CopyTopicIndex(log, "copies", 2).complete_copies([0, 1])
    assert copy_ranges[1][:2] == (0, copy_ranges[1][1]) and copy_ranges[2][0] < copy_ranges[1][1] < copy_ranges[2][1]
    assert copy_ranges[3] == (0, 1, 0)


def test_the_first_routing_is_made_once(folder: JobFolder) -> None:
    """Of what was declared; starting again changes nothing."""
    prepare_routing(folder, CONTROL, 8, EQUAL)
    before = read_json(folder.path / ROUTING)
    assert before["epoch"] == 1 and before["units"] == [0, 1] and before["max_units"] == 8
    prepare_routing(folder, RebalanceConfig(5), 8, EQUAL)
    assert read_json(folder.path / ROUTING) == before


def test_a_start_writes_the_routing_that_a_crash_left_out(folder: JobFolder) -> None:
    """The course was written first: an epoch that is only in it goes out, be the other file old or lost."""
    prepare_routing(folder, CONTROL, 8, EQUAL)
    state = read_json(folder.path / "controller.json")
    state["value"]["table"]["epoch"] = 2
    write_json(folder.path / "controller.json", state)
    prepare_routing(folder, CONTROL, 8, EQUAL)
    assert read_json(folder.path / ROUTING)["epoch"] == 2
    (folder.path / ROUTING).unlink()
    prepare_routing(folder, CONTROL, 8, EQUAL)
    assert read_json(folder.path / ROUTING)["epoch"] == 2


def test_epochs_and_pieces_go_on_being_counted_from_a_new_beginning_on(folder: JobFolder) -> None:
    """So that no copy of before is taken for one of after; a join that never ran begins with its first epoch later."""
    reset_routing(folder, CONTROL, 8, EQUAL)
    assert read_controller_state(folder) is None
    prepare_routing(folder, CONTROL, 8, EQUAL)
    first = read_controller_state(folder)
    _write_controller_state(folder, replace(first, table=replace(first.table, epoch=7), next_id=12))
    reset_routing(folder, CONTROL, 8, EQUAL)
    state = read_controller_state(folder)
    assert (state.table.epoch, state.next_id, state.copying, state.pending) == (8, 12, (), ())
    assert read_json(folder.path / ROUTING) == state.table.as_json()
    assert replace(state.table, epoch=1) == replace(first.table, epoch=1)


def test_another_room_than_at_first_is_refused(folder: JobFolder) -> None:
    """The topics and tables have that many units."""
    prepare_routing(folder, CONTROL, 8, EQUAL)
    with pytest.raises(
        InvalidJobError, match=r"j: max_units = 4, but it was first started with 8, which.*write max_units = 8"
    ):
        prepare_routing(folder, CONTROL, 4, EQUAL)


def test_nothing_is_decided_before_all_units_have_reported(simulation: JoinSimulation) -> None:
    """A job that was just started has reports of none, then of some; the next look is to come soon."""
    route, join = simulation.stages
    assert simulation.controller.rebalance() and read_explanation(simulation.folder) is None
    while len(simulation._reports("join")) < join.units - 1:
        simulation._step(route)
        simulation._step(join)
        assert simulation.controller.rebalance() is (len(simulation._reports("join")) < join.units) or read_explanation(
            simulation.folder
        )
    assert read_controller_state(simulation.folder).table.epoch == 1


def test_an_epoch_that_could_not_be_written_is_written_later(
    simulation: JoinSimulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk between the two files: without the second, no epoch would ever come into force again."""
    failing = True

    def full(path: Path, value: Any) -> None:
        if failing and path.name == ROUTING:
            raise OSError("no space left")
        write_json(path, value)

    simulation.finish()
    simulation.settle()
    before = read_controller_state(simulation.folder).table.epoch
    simulation.want_units(4)
    monkeypatch.setattr(rebalance, "write_json", full)
    with pytest.raises(OSError, match="no space"):
        for _ in range(50):
            simulation._step(simulation.stages[0])
            simulation.controller.rebalance()
    assert (
        read_controller_state(simulation.folder).table.epoch
        > read_json(simulation.folder.path / ROUTING)["epoch"]
        >= before
    )
    failing = False
    simulation.controller.rebalance()
    assert read_controller_state(simulation.folder).table.epoch == read_json(simulation.folder.path / ROUTING)["epoch"]
    monkeypatch.undo()
    simulation.settle()
    assert read_controller_state(simulation.folder).table.units == (0, 1, 2, 3)
