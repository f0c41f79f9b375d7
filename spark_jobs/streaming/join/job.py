"""A join of two streams, over their full history or a while back, as a job.

[pairs]
kind = "join"
on = "l.orderkey = r.orderkey AND r.quantity > 10"     # SQL over the two sides
select = ["l.orderkey", "r.quantity"]                  # left out: all fields of both
units = 4                  # that store and probe, at first
room = 8                   # how many there can be while it runs
strategy = "heavy-split-work"  # or "heavy-split", "djb", or another one installed: docs/joins.md
theta = 0.05               # the imbalance of loads that is borne
weights = [0.2, 0.3, 0.5]  # of routing, duplication and migration in a migration's cost
every = 5.0                # seconds between two looks at the loads
admitted = 200             # messages of a partition in a round, at most
keep = 3600.0              # seconds for which a stored tuple finds partners; left out: for ever
keep_rows = 50_000_000     # newest tuples of both sides that find partners, about; left out: all
from = "earliest"          # or "latest": where a job begins that never ran

[pairs.left]               # called l in the predicate, or by its `alias`
topic = "orders"
form = "csv"               # or "arrow", "json"
fields = [["orderkey", "int"], ["price", "float"], ["priority", "text"]]

[pairs.right]              # the same topic: a join of a stream with itself
topic = "lineitem"
fields = [["orderkey", "int"], ["quantity", "int"]]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.backpressure.config import USUAL, Choice
from springline.spark_jobs.streaming.config import Declared
from springline.spark_jobs.streaming.errors import InvalidJobError
from springline.spark_jobs.streaming.job import BaseJob, ServiceContext
from springline.spark_jobs.streaming.job_folder import HOLD, STOP, JobFolder
from springline.spark_jobs.streaming.join.condition.condition import Condition, ConditionTold
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.errors import InvalidConditionError, InvalidRelationError
from springline.spark_jobs.streaming.join.rebalance import ROUTING, Steering, begin_routing_anew, prepare_routing
from springline.spark_jobs.streaming.join.router import TABLE, Source
from springline.spark_jobs.streaming.join.routing.controller import Control
from springline.spark_jobs.streaming.join.routing.strategies import STRATEGIES, USUAL_STRATEGY
from springline.spark_jobs.streaming.join.routing.strategies.costs import Costs
from springline.spark_jobs.streaming.kafka.topic_union import sum_of
from springline.spark_jobs.streaming.kinds import Kind
from springline.spark_jobs.streaming.runtime.atomic_files import read_value, write_value
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.stage import COMMAND, StageSpec
from springline.spark_jobs.streaming.sources.layout import FORMS, fault_of_delimiter
from springline.spark_jobs.streaming.tracking.config import FIRST

_STEPS = "springline.spark_jobs.streaming.join"
_KEYS = {
    "on", "select", "units", "room", "strategy", "theta", "weights", "every", "admitted", "keep", "keep_rows", "from",
    "left", "right",
}  # fmt: skip
_SIDE_KEYS = {"topic", "alias", "form", "delimiter", "fields"}
_MOST_UNITS = 256
_CONDITION = "condition.json"  # what its tuples are stored for
_SETTINGS = {"left": "the fields of left", "right": "the fields of right", "where": "on", "select": "select"}

_CONDITIONS: Codec[ConditionTold] = Codec(
    ConditionTold, 1, "what the units of a join store tuples for", "reset the job, which then begins anew"
)


@dataclass(frozen=True)
class JoinJob(BaseJob):
    """Joins `left` and `right` on `condition`, on some of `room` units; `control` says how tuples are placed.

    Stored tuples are kept for `keep` seconds, or for ever: `Retention` says which pairs are told then.
    """

    name: str
    left: Source
    right: Source
    condition: Condition
    control: Control
    room: int
    every: float = 5.0
    admitted: int = 200
    latest: bool = False
    keep: float | None = None
    backpressure: Choice = USUAL

    @property
    def sources(self) -> tuple[str, ...]:
        """The topics that it reads: one, where a stream is joined with itself."""
        return tuple(dict.fromkeys((self.left.topic, self.right.topic)))

    @property
    def topic(self) -> str:
        """What it reads, as one topic."""
        return sum_of(self.sources)

    @property
    def tuples(self) -> str:
        """The topic between routers and units."""
        return f"{self.name}.tuples"

    @property
    def copies(self) -> str:
        """The topic of stored tuples on their way to another unit."""
        return f"{self.name}.copies"

    @property
    def sized(self) -> Mapping[str, str]:
        """That between routers and units."""
        return {self.tuples: "room"}

    only_from_the_beginning = "a join goes back to its beginning alone, since where its tuples were before is not kept"

    def stages(self, units: int) -> tuple[StageSpec, ...]:
        """Routers, a unit of which reads a partition of either topic, and the units that store and probe."""
        condition = self.condition.as_json()
        route = StageSpec(
            "route", f"{_STEPS}.router:make_router", self.topic, units,
            {
                "left": self.left.as_json(), "right": self.right.as_json(),
                "units": self.room, "condition": condition, **({} if self.keep is None else {"clocked": True}),
            },
            downstream=self.tuples, dead=self.dead, admitted=self.admitted, contents={TABLE: ROUTING},
            holds=(STOP, HOLD),
        )  # fmt: skip
        join = StageSpec(
            "join", f"{_STEPS}.unit.unit:JoinUnit", self.tuples, self.room,
            {
                "query": self.name, "condition": condition, "copies": self.copies,
                **({} if self.keep is None else {"keep": self.keep}),
            },
            stamped=True, results=self.results, told=self.copies, dead=self.dead, place=FIRST, admitted=10_000,
            holds=(STOP,),
        )  # fmt: skip
        return route, join

    def prepare(self, folder: JobFolder) -> None:
        """Make the routing that it begins with, where there is none.

        Raises `InvalidJobError` where units hold other tuples, and `DecodeError`.
        """
        condition, file = self.condition.told, folder.path / _CONDITION
        if (before := read_value(file, _CONDITIONS)) is None:
            folder.path.mkdir(parents=True, exist_ok=True)
            write_value(file, _CONDITIONS, condition)
            before = condition
        if odd := [said for name, said in _SETTINGS.items() if getattr(condition, name) != getattr(before, name)]:
            raise InvalidJobError(
                f"job {self.name!r}: {', '.join(odd)} cannot be changed, since its units hold tuples that were stored "
                "for what it was when it first ran: write that again, or let the job begin anew: "
                f"`{COMMAND} reset {self.name}`"
            )
        prepare_routing(folder, self.control, self.room, self.condition.reach)

    def services(self, context: ServiceContext) -> Sequence[BackgroundService]:
        """The one that keeps loads level."""
        return [Steering(self.control, self.every, context.folder, context.stages, context.settings.cluster)]

    def on_rewind(self, folder: JobFolder) -> None:
        """Forget where tuples are, and what for: the job goes back to the beginning of its topics."""
        (folder.path / _CONDITION).unlink(missing_ok=True)
        begin_routing_anew(folder, self.control, self.room, self.condition.reach)


def declared_join(told: Declared) -> JoinJob:
    """A job from its table; raises `InvalidJobError`."""
    told.check(_KEYS, topic=False)
    left, right = _side(told, "left", "l"), _side(told, "right", "r")
    if left.topic == right.topic and not _same(left, right):
        raise InvalidJobError(f"{told.where}: left and right read the same topic, and declare it in different ways")
    units = told.number("units", 4, most=_MOST_UNITS)
    room = told.number("room", max(units, 8), most=_MOST_UNITS)
    if room < units:
        raise InvalidJobError(
            f"{told.where}: room = {room}, and there are {units} units; room is how many there can be"
        )
    keep = _keep(told)
    rows = told.number("keep_rows", 1) if "keep_rows" in told.table else None
    try:
        condition = Condition.of(left.relation, right.relation, _text(told, "on"), _texts(told, "select"))
        control = Control(
            units, told.extension("strategy", STRATEGIES, USUAL_STRATEGY), _theta(told), _weights(told),
            expiring=keep is not None or rows is not None, keep_rows=rows,
        )  # fmt: skip
    except (InvalidConditionError, InvalidRelationError) as error:
        raise InvalidJobError(f"{told.where}: {error}") from error
    return JoinJob(
        told.name, left, right, condition, control, room, told.seconds("every", 5.0), told.number("admitted", 200),
        told.latest, keep=keep, backpressure=Choice.declared(told),
    )  # fmt: skip


KIND = Kind("join", declared_join)


def _same(left: Source, right: Source) -> bool:
    """Whether the two read the same rows; CSV has the fields in their order."""
    fields = [list(side.relation.fields.items()) for side in (left, right)]
    return fields[0] == fields[1] and (left.form, left.delimiter) == (right.form, right.delimiter)


def _side(told: Declared, name: str, alias: str) -> Source:
    table = told.table.get(name)
    if not isinstance(table, dict):
        raise InvalidJobError(f"{told.where}: it needs a table [{told.name}.{name}]")
    own = Declared(f"{told.where}, [{told.name}.{name}]", told.name, table)
    own.check(_SIDE_KEYS)
    fields: Any = table.get("fields")
    pairs = isinstance(fields, list) and all(isinstance(one, list) and len(one) == 2 for one in fields)
    if not pairs or not all(isinstance(text, str) for one in fields for text in one):
        raise InvalidJobError(f'{own.where}: fields must be a list such as [["orderkey", "int"], ["price", "float"]]')
    if not isinstance(table.get("alias", alias), str):
        raise InvalidJobError(
            f"{own.where}: {table['alias']!r} cannot be the alias of a side: write a name such as {alias}"
        )
    delimiter = table.get("delimiter", ",")
    if fault := fault_of_delimiter(delimiter):
        raise InvalidJobError(f"{own.where}: {fault}")
    try:
        relation = Relation.of(table.get("alias", alias), fields)
    except InvalidRelationError as error:
        raise InvalidJobError(f"{own.where}: {error}") from error
    return Source(own.topic, relation, own.choice("form", FORMS), delimiter)


def _text(told: Declared, key: str) -> str:
    if not isinstance(value := told.table.get(key), str) or not value.strip():
        raise InvalidJobError(f'{told.where}: it needs {key} = "…", a predicate over both sides')
    return value


def _texts(told: Declared, key: str) -> list[str]:
    value = told.table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise InvalidJobError(f"{told.where}: {key} must be a list of columns")
    return value


def _theta(told: Declared) -> float:
    value = told.table.get("theta", 0.05)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
        raise InvalidJobError(f"{told.where}: theta must be a number from 0 to below 1")
    return float(value)


def _keep(told: Declared) -> float | None:
    value = told.seconds("keep", 1.0) if "keep" in told.table else None
    if value is not None and not math.isfinite(value):
        raise InvalidJobError(f"{told.where}: keep = inf; leave it out, and stored tuples are kept for ever")
    return value


def _weights(told: Declared) -> Costs:
    value = told.table.get("weights", [0.2, 0.3, 0.5])
    numbers = isinstance(value, list) and all(isinstance(one, int | float) and one >= 0 for one in value)
    if not numbers or len(value) != 3 or abs(sum(value) - 1) > 1e-9:
        raise InvalidJobError(f"{told.where}: weights must be three numbers that add up to 1")
    return Costs(*map(float, value))
