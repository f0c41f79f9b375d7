"""Whatever dies, and whatever is lost, the results of a job of two stages are those of a run without faults."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.streaming.errors import Fenced
from spark_jobs.streaming.jobs import Job
from spark_jobs.streaming.unitlog.planner import Content, Planner
from spark_jobs.streaming.unitlog.recovery import recover
from spark_jobs.streaming.unitlog.rounds import Plan
from spark_jobs.streaming.unitlog.stage import Stage
from spark_jobs.streaming.unitlog.unit import Units
from spark_jobs.streaming.unitlog.versions import Packed, Versions
from spark_jobs.streaming.windows.stream import Field, Stream
from tests.support.memory_log import Killed, MemoryLog

MAPPERS = 2
ROWS = [f"{1_000_000_000 + i / 10},{'abc'[i % 3]},{i}\n" for i in range(240)]
STREAM = Stream("S", (Field("time", "float"), Field("key", "text"), Field("n", "int")), "time", idle=5.0)
QUERIES = {"sums": "SELECT key, count(*) AS rows, sum(n) AS total FROM S GROUP BY key WINDOWING 5 s"}
JOB = Job("job", "rows", STREAM, QUERIES, reducers=2, admitted=2)

FAULTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["die", "die", "die", "lose state", "lose checkpoint", "second driver", "save", "save, cut, lose"]
        ),
        st.integers(0, 60),
    ),
    max_size=6,
)


class World:
    """A job's driver and workers as one process that may die, and what outlives it: logs, states, the checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stages = JOB.stages(MAPPERS, folder)
        self.log = MemoryLog({JOB.topic: MAPPERS, **JOB.topics(MAPPERS)})
        for index in range(0, len(ROWS), 10):
            self.log.put(JOB.topic, index // 10 % MAPPERS, "".join(ROWS[index : index + 10]).encode())
        self.clock = 0.0
        self.saved: dict[tuple[str, int], tuple[tuple[int, int], Packed]] = {}
        self.committed: dict[str, Plan] = {}  # what Spark's checkpoint knows: the last round that was committed,
        self.planned: dict[str, Plan] = {}  # and the one that was planned, which is run again as it was
        self.start()

    def start(self) -> None:
        """A driver and workers without memory."""
        self.log.dies_in = None
        for stage in self.stages:
            recover(stage, self.log, self.fetch)
        queries = {"queries": Content.of(JOB.registry().as_json())}
        self.planners = {stage.name: Planner(stage, self.log, self.time, lambda: queries) for stage in self.stages}
        self.units = {stage.name: Units(stage, self.log) for stage in self.stages}

    def save(self) -> None:
        """Keep the newest state of every unit elsewhere, and cut the log between the stages accordingly."""
        for stage, units in zip(self.stages, (MAPPERS, JOB.reducers), strict=True):
            for unit in range(units):
                versions = Versions(stage.folder(unit))
                if (newest := versions.newest()) is not None:
                    self.saved[stage.name, unit] = newest, versions.packed(*newest)
                    if stage.stamped:
                        self.log.lows[stage.topic, unit] = self.saved[stage.name, unit][1].notes["offset"]

    def fetch(self, stage: Stage, unit: int, until: tuple[int, int]) -> tuple[int, int] | None:
        """Put the state back that was kept, if it is not later."""
        order, packed = self.saved.get((stage.name, unit), (None, None))
        if order is None or packed is None or order > until:
            return None
        Versions(stage.folder(unit)).unpack(*order, packed.manifest, packed.runs)
        return order

    def time(self) -> float:
        """A clock that goes on with every look."""
        self.clock += 0.4
        return self.clock

    def turn(self) -> bool:
        """A round of each stage that has anything to do."""
        moved = [self._round(stage) for stage in self.stages]
        return any(moved)

    def _round(self, stage: Stage) -> bool:
        planner = self.planners[stage.name]
        plan = self.planned.get(stage.name)
        if plan is None:
            last = self.committed.get(stage.name) or planner.begin()
            plan = planner.after(last)
        if plan is None:
            return False
        self.planned[stage.name] = plan
        for unit in sorted(plan.ranges):
            self.units[stage.name].run(plan, planner.contents_of(plan), unit)
        self.committed[stage.name] = plan
        del self.planned[stage.name]
        return plan.messages > 0

    def finish(self) -> None:
        """Go on until nothing comes any more, and the units have been idle for long."""
        for _ in range(60):
            self.turn()

    def results(self) -> Counter[str]:
        """All lines of the result topic, as they are there."""
        lines = [bytes(m.value).splitlines() for unit in self.log.topics[JOB.results] for m in unit]
        return Counter(json.dumps(json.loads(line), sort_keys=True) for unit in lines for line in unit)


def _run(faults: list[tuple[str, int]]) -> Counter[str]:
    folder = Path(tempfile.mkdtemp())
    try:
        world = World(folder)
        for fault, after in faults:
            if fault == "die":
                world.log.dies_in = after
            try:
                for _ in range(1 + after % 5):
                    world.turn()
            except Killed:
                world.start()
            world.log.dies_in = None
            if fault.startswith("save"):
                world.save()
            if fault in ("lose state", "save, cut, lose"):
                shutil.rmtree(folder / "job", ignore_errors=True)
                world.start()
            elif fault == "lose checkpoint":
                world.committed.clear()
                world.planned.clear()
                world.start()
            elif fault == "second driver":
                _fence_off(world)
        world.finish()
        return world.results()
    finally:
        shutil.rmtree(folder)


def _fence_off(world: World) -> None:
    """A driver takes over while the first one lives: that one plans nothing more, and its units harm nobody."""
    zombie, units, planned = world.planners, world.units, dict(world.committed)
    world.start()
    for stage in world.stages:
        if stage.name in planned and (plan := world.planners[stage.name].after(planned[stage.name])) is not None:
            world.planned[stage.name] = plan
            for unit in sorted(plan.ranges):
                units[stage.name].run(plan, world.planners[stage.name].contents_of(plan), unit)
            try:
                zombie[stage.name].after(plan)
            except Fenced:
                continue


CLEAN = _run([])


def test_a_run_without_faults_counts_every_row_once() -> None:
    """The sum of the grouped counts is the number of rows."""
    assert sum(json.loads(line)["rows"] * times for line, times in CLEAN.items()) == len(ROWS)
    assert set(CLEAN.values()) == {1}


@given(FAULTS)
@settings(max_examples=60, deadline=None)
def test_no_result_is_lost_or_doubled_whatever_dies(faults: list[tuple[str, int]]) -> None:
    """Workers and drivers that die at any call, lost states and logs that were cut, no checkpoint, a second driver."""
    assert _run(faults) == CLEAN
