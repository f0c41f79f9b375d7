"""Steers a join while it runs: looks at loads, decides, writes the next epoch where the planner finds it.

course.json    the table in force and what is under way; written first, so that it knows of every epoch that is out
routing.json   the table as rounds name it
wanted.json    how many units are asked for
explain.json   what is known and why what was done was done, for people
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.errors import InvalidJobError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.join.errors import NeverBalancedError
from springline.spark_jobs.streaming.join.routing.controller import Control, Course, Seen, begun, decide
from springline.spark_jobs.streaming.join.routing.explain import explain
from springline.spark_jobs.streaming.join.routing.table import block_for
from springline.spark_jobs.streaming.join.unit.migration import part_of
from springline.spark_jobs.streaming.join.wire import Reach
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.atomic_files import (
    read_json,
    read_value,
    replace_file,
    write_json,
    write_value,
)
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.message_log import Log
from springline.spark_jobs.streaming.runtime.report import counted
from springline.spark_jobs.streaming.runtime.stage import Stage

ROUTING = "routing.json"
_COURSE, _WANTED, _EXPLAIN, _LOCK = "course.json", "wanted.json", "explain.json", "routing.lock"
_LOOK_SECONDS = 0.25  # between two looks while pieces are under way
_KEPT = 50  # epochs of which explain.json tells why they are


@dataclass(frozen=True, slots=True)
class _Wanted:
    """How many units are asked for."""

    units: int


_WANTS: Codec[_Wanted] = Codec(
    _Wanted, 1, "the number of units that is wanted", "say it again: `springline stream rescale`"
)


def prepare_routing(folder: JobFolder, control: Control, room: int, reach: Reach) -> None:
    """Make the first epoch, where there is none; what rounds name is what the course says. Raises `InvalidJobError`."""
    with folder.locked(_LOCK):
        course = course_of(folder)
        if course is not None and course.table.room != room:
            raise InvalidJobError(
                f"{folder.path.name}: room = {room}, and it began with room for {course.table.room} units, which "
                f"cannot be changed: write room = {course.table.room}, or give a new job another name"
            )
        if course is None:
            course = begun(control, room, block_for(reach))
            _write_course(folder, course)
        write_json(folder.path / ROUTING, course.table.as_json())


def begin_routing_anew(folder: JobFolder, control: Control, room: int, reach: Reach) -> None:
    """Go on with an empty table, as nothing is stored any more; epochs and pieces go on being counted."""
    with folder.locked(_LOCK):
        before = course_of(folder)
        if before is not None:
            first = begun(control, room, block_for(reach))
            table = replace(first.table, epoch=before.table.epoch + 1)
            _write_course(folder, replace(first, table=table, next_id=before.next_id))
            write_json(folder.path / ROUTING, table.as_json())


def course_of(folder: JobFolder) -> Course | None:
    """What is under way, and the table; None before the job first started. Raises `DecodeError`."""
    path = folder.path / _COURSE
    try:
        return Course.decode(path.read_bytes(), str(path))
    except FileNotFoundError:
        return None


def explained(folder: JobFolder) -> dict[str, Any] | None:
    """What the last look told; None before the first one."""
    told: dict[str, Any] | None = read_json(folder.path / _EXPLAIN)
    return told


def explanation_of(folder: JobFolder) -> dict[str, Any]:
    """The same; raises `NeverBalancedError` before the first look."""
    told = explained(folder)
    if told is None:
        raise NeverBalancedError(f"{folder.path.name}: nothing is known of it yet: start it first")
    return told


def want_units(folder: JobFolder, units: int, room: int) -> None:
    """Ask for another number of units, while the job runs or not; raises `InvalidJobError`."""
    if not 1 <= units <= room:
        raise InvalidJobError(f"{folder.path.name}: {units} units; there is room for 1 to {room}")
    folder.make()
    write_value(folder.path / _WANTED, _WANTS, _Wanted(units))


def wanted_units(folder: JobFolder, declared: int) -> int:
    """How many units are wanted; raises `DecodeError`."""
    requested = read_value(folder.path / _WANTED, _WANTS)
    return declared if requested is None else requested.units


def _write_course(folder: JobFolder, course: Course) -> None:
    replace_file(folder.path / _COURSE, course.encode())


@dataclass
class _Copy:
    """A piece as it lies in the topic of copies: from offset `start` to `to`, so far."""

    start: int
    to: int
    parts: int
    seen: set[int] = field(default_factory=set)
    tuples: int = 0


class Copies:
    """Which pieces lie whole in the topic of copies, and where; every message is looked at once."""

    def __init__(self, log: Log, topic: str) -> None:
        self._log, self._topic = log, topic
        self._at: dict[int, int] = {}
        self._found: dict[int, _Copy] = {}

    def whole(self, units: Iterable[int]) -> dict[int, tuple[int, int, int]]:
        """Where (offsets [start, to)) each piece lies, and its tuples; looks for new ones of these units."""
        extents = self._log.extents(self._topic)
        for unit in sorted(set(units)):
            low, to = extents[unit].low, extents[unit].high
            start = max(self._at.get(unit, low), low)
            for message in self._log.fetch(self._topic, unit, start, to):
                piece, part, parts, batch = part_of(message.value)
                copy = self._found.setdefault(piece, _Copy(message.offset, 0, parts))
                copy.to = message.offset + 1
                if part not in copy.seen:
                    copy.seen.add(part)
                    copy.tuples += batch.num_rows
            self._at[unit] = to
        return {
            piece: (copy.start, copy.to, copy.tuples)
            for piece, copy in self._found.items()
            if len(copy.seen) == copy.parts
        }


class Helm:
    """Looks once when it is asked to: at what units tell and where copies lie; decides, and writes what comes of it."""

    def __init__(self, control: Control, folder: JobFolder, stages: Sequence[Stage], log: Log) -> None:
        self._control = control
        self._folder = folder
        self._route, self._join = stages
        self._copies = Copies(log, self._join.told)
        self._history: list[Any] = (explained(folder) or {}).get("history", [])
        self._out = 0  # the epoch that routing.json is known to have

    def look(self) -> bool:
        """Decide once; whether pieces are under way. Raises `InvalidRoutingError`, OSError, and what the log raises."""
        routers, units = self._route.reports(), self._join.reports()
        if len(routers) < self._route.units or len(units) < self._join.units:
            return True  # the first rounds are not through
        course = course_of(self._folder)
        assert course is not None
        seen = Seen.of_gauges(
            {unit: report.gauges for unit, report in routers.items()},
            {unit: report.gauges for unit, report in units.items()},
            self._copies.whole(one.piece.giver for one in course.copying) if course.copying else {},
            counted(units.values())["pairs"],
            min(report.round for report in routers.values()),
        )
        control = replace(self._control, units=wanted_units(self._folder, self._control.units))
        decision = decide(course, seen, control, self._route.units)
        after = decision.course
        if after != course:
            _write_course(self._folder, after)
        if after.table.epoch != self._out:  # also one that a look before could not write
            write_json(self._folder.path / ROUTING, after.table.as_json())
            self._out = after.table.epoch
        if decision.table is not None:
            self._history.append({"at": time.time(), "epoch": decision.table.epoch, "reasons": list(decision.reasons)})
            del self._history[:-_KEPT]
        told = explain(after, seen, control, counted(routers.values())).as_json()
        reasons = list(decision.reasons)
        write_json(
            self._folder.path / _EXPLAIN, {**told, "at": time.time(), "reasons": reasons, "history": self._history}
        )
        return bool(after.copying or after.waiting or decision.table)


class Steering(BackgroundService):
    """Does it for the stages of a join, every so many seconds."""

    section = "routing"

    def __init__(
        self, control: Control, every: float, folder: JobFolder, stages: Sequence[Stage], cluster: Cluster
    ) -> None:
        super().__init__("steering")
        self._control = control
        self._every = every
        self._folder = folder
        self._stages = stages
        self._cluster = cluster

    def status(self) -> dict[str, Any]:
        """How uneven the loads are, how many pieces move, and the epoch; nothing before the first look."""
        last = explained(self._folder)
        if last is None:
            return {}
        return {"imbalance": last["imbalance"], "moves": len(last["under_way"]), "epoch": last["epoch"]}

    def _work(self) -> None:
        with closing(Kafka(self._cluster)) as log:
            helm, pause = Helm(self._control, self._folder, self._stages, log), 0.0
            while not self._over.wait(pause):
                moving = False
                with self._trying("loads are not looked after"):
                    moving = helm.look()
                pause = min(_LOOK_SECONDS, self._every) if moving else self._every
