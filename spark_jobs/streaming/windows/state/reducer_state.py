"""State of a reducer unit: the cubes of the queries, and those of which mappers send partials already.

runs    <cube>             slices of time, or panes of rows
        <cube>-rows        rows of count windows whose position is not certain yet
        <cube>-<since>-…   the total of a landmark window, as one slice
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.runtime.step import State
from springline.spark_jobs.streaming.windows.aggregation.partials import merge
from springline.spark_jobs.streaming.windows.coverage import Spans
from springline.spark_jobs.streaming.windows.multi_query import Cube
from springline.spark_jobs.streaming.windows.payload import Partials
from springline.spark_jobs.streaming.windows.state.cube_state import (
    CountCubeState,
    CubeScalars,
    CubeState,
    ReducerRound,
    TimeCubeState,
    waiting_rows_of,
)
from springline.spark_jobs.streaming.windows.state.slices import Runs, push_run
from springline.spark_jobs.streaming.windows.state.watermarks import EventTime


@dataclass
class ReducerState:
    """What a unit keeps from round to round beside its runs.

    Args:
        time: the event time that it has reached.
        cubes: by id, those that it serves, and those that its version of the registry does not have yet.
        newer: of the latter, the version of the registry that has them.
        marks: up to where the windows of each query were emitted.
        spans: the coverage of each cube.
    """

    time: EventTime = field(default_factory=EventTime)
    cubes: dict[str, CubeScalars] = field(default_factory=dict)
    newer: dict[str, int] = field(default_factory=dict)
    marks: dict[str, int | None] = field(default_factory=dict)
    spans: Spans = field(default_factory=dict)

    @staticmethod
    def of(state: State, where: str) -> ReducerState:
        """Return what the previous round left; `where` is the unit, for an error."""
        return from_json_value(ReducerState, state.scalars.get("windows", {}), where)

    def after_round(self, runs: Mapping[str, Runs]) -> State:
        """Return the state for the next round."""
        return State({"windows": to_json_value(self)}, runs)

    def learn_newer(self, announced: Mapping[str, int], version: int, served: Collection[str]) -> None:
        """Take note of cubes that mappers use and the registry `version` does not have: their versions by id."""
        versions = {name: since for name, since in {**self.newer, **announced}.items() if since > version}
        self.newer = {name: versions[name] for name in sorted(versions) if name not in served}

    def cube_state(self, cube: Cube, reducer_round: ReducerRound) -> CubeState:
        """Return the state of a cube, to be advanced in this round; that of a new one begins after its event time.

        Partials that were sent for it earlier, when no query used it, are not available.
        """
        if cube.id not in self.cubes:
            highs = self.time.highs.values() if cube.width else ()
            self.cubes[cube.id] = CubeScalars(max(highs) + 1 if highs else None)
        kind = TimeCubeState if cube.width else CountCubeState
        return kind(cube, self.cubes[cube.id], reducer_round)

    def store(self, cube: str, fresh: Sequence[Partials], reducer_round: ReducerRound) -> None:
        """Store the partials of a newer cube as they are; whether they are late is known with its queries."""
        self.cubes.setdefault(cube, CubeScalars())
        batches = [each.batch for each in fresh]
        rows = [batch for batch in batches if "time" in batch.schema.names]
        waiting = waiting_rows_of(cube)
        reducer_round.set_runs(waiting, (*reducer_round.runs.get(waiting, ()), *rows))
        slices = merge([batch for batch in batches if "time" not in batch.schema.names])
        reducer_round.set_runs(cube, push_run(reducer_round.runs.get(cube, ()), slices))

    def forget(self, queries: Collection[str], cubes: Collection[str], reducer_round: ReducerRound) -> None:
        """Delete the state of queries and cubes that no longer exist."""
        retained = {*cubes, *self.newer}
        self.cubes = {name: each for name, each in sorted(self.cubes.items()) if name in retained}
        self.spans = {name: each for name, each in sorted(self.spans.items()) if name in retained}
        self.marks = {name: mark for name, mark in sorted(self.marks.items()) if name.partition(" ")[0] in queries}
        for name in [name for name in reducer_round.runs if name.partition("-")[0] not in retained]:
            reducer_round.set_runs(name, ())


def floor_of_cube(state: State, cube: str) -> int | None:
    """Return the slice before which a unit has deleted those of a cube; None if it has not."""
    scalars = ReducerState.of(state, "the state of a reducer").cubes.get(cube)
    return None if scalars is None else scalars.floor
