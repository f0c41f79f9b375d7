"""What the controller sees, has under way, and would do now, as plain values for a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from springline.spark_jobs.streaming.join.routing.controller import Control, Course, Seen, loads_of, next_plan
from springline.spark_jobs.streaming.join.routing.table import SIDES, Place


@dataclass(frozen=True)
class Explained:
    """The routing of a join: `loads` by unit (left, right); shares of tuples by key; moves in words, with costs.

    There is a load for each unit that there can be; those in use are `used`.
    """

    epoch: int
    strategy: str
    units: int
    wanted: int
    used: tuple[int, ...]
    loads: Mapping[int, tuple[int, int]]
    imbalance: float
    bound: float
    heavy: tuple[Mapping[str, Any], ...]
    entries: tuple[Mapping[str, Any], ...]
    under_way: tuple[Mapping[str, Any], ...]
    messages: float | None
    would: tuple[str, ...]
    moves: tuple[Mapping[str, Any], ...]

    def as_json(self) -> dict[str, Any]:
        """A form for files and answers."""
        return asdict(self)


def explain(
    course: Course, seen: Seen, control: Control, counts: Mapping[str, int] | None = None, most: int = 20
) -> Explained:
    """The `most` heaviest keys, all entries, all that is under way, and the plan of now; `counts` are the routers'."""
    table = course.table
    course = Course(
        table, course.copying, course.waiting, course.recollection.learnt(table, seen.sketches), planned=course.planned
    )
    loads = loads_of(course, seen, control)
    heavy = sorted(loads.heavy, key=lambda one: (-one.count, one.side, one.key))[:most]
    busy = len(course.copying) + len(course.waiting)
    plan = None if busy else next_plan(course, loads, control)
    would = plan.reasons if plan else (f"wait for {busy} pieces" if busy else "nothing: within the bound",)
    counts = counts or {}
    return Explained(
        epoch=table.epoch,
        strategy=control.strategy,
        units=len(table.units),
        wanted=control.units,
        used=table.units,
        loads={unit: loads.stored.get(unit, (0, 0)) for unit in range(table.room)},
        imbalance=loads.imbalance(table.units),
        bound=control.theta,
        heavy=tuple(
            {"side": one.side.name.lower(), "key": one.key, "tuples": one.count, "probes": one.probes,
             "parts": dict(one.parts)} for one in heavy
        ),
        entries=tuple(
            {"side": side.name.lower(), "key": key, **_told(place)}
            for side in SIDES
            for key, place in sorted(table.entries[side].items())
        ),
        under_way=tuple(
            {"piece": one.piece.id, "copying": one in course.copying, "tuples": one.tuples, "kind": one.kind,
             "cost": one.cost, "words": one.words} for one in (*course.copying, *course.waiting)
        ),
        messages=counts["messages"] / counts["tuples"] if counts.get("tuples") else None,
        would=would,
        moves=tuple(
            {"kind": one.kind, "tuples": one.tuples, "cost": one.cost, "words": one.words()}
            for one in (plan.moves if plan else ())
        ),
    )  # fmt: skip


def _told(place: Place) -> dict[str, Any]:
    return {"stores": {unit: place.share(unit) for unit in place.units}, "holds": list(place.holds)}
