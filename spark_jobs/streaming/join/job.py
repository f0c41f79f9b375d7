"""A job that joins two streams, over their full history or over a retention time.

[pairs]
kind = "join"
on = "l.orderkey = r.orderkey AND r.quantity > 10"     # SQL over the two sides
select = ["l.orderkey", "r.quantity"]                  # default: all fields of both
parallelism = 4                  # initial number of units that store and probe
max_units = 8                   # maximum number of units while the job runs
strategy = "heavy-split-work"  # or "heavy-split", "djb", or an installed one: docs/joins.md
max_imbalance = 0.05               # load imbalance tolerated before tuples are migrated
migration_cost_weights = [0.2, 0.3, 0.5]  # weights of routing, duplication and migration in a migration's cost
rebalance_interval = 5.0                # seconds between two checks of the loads
max_messages_per_round = 200             # maximum messages of a partition in a round
ttl = 3600.0              # seconds for which a stored tuple finds partners; default: unlimited
max_rows = 50_000_000     # approximate number of newest tuples of both sides that find partners; default: all
start_from = "earliest"          # or "latest": where the first run of a job starts

[pairs.left]               # called l in the predicate, or by its `alias`
topic = "orders"
format = "csv"               # or "arrow", "json"
fields = [["orderkey", "int"], ["price", "float"], ["priority", "text"]]

[pairs.right]              # the same topic: a self-join of a stream
topic = "lineitem"
fields = [["orderkey", "int"], ["quantity", "int"]]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.backpressure.config import DEFAULT_CONFIG, BackpressureConfig
from springline.spark_jobs.streaming.config import JobTable
from springline.spark_jobs.streaming.errors import InvalidJobError
from springline.spark_jobs.streaming.job import BaseJob, ServiceContext
from springline.spark_jobs.streaming.job_folder import HOLD, STOP, JobFolder
from springline.spark_jobs.streaming.join.condition.condition import Condition, ConditionSpec
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.errors import InvalidConditionError, InvalidRelationError
from springline.spark_jobs.streaming.join.rebalance import ROUTING, RebalanceService, prepare_routing, reset_routing
from springline.spark_jobs.streaming.join.router import TABLE, RelationSource
from springline.spark_jobs.streaming.join.routing.controller import RebalanceConfig
from springline.spark_jobs.streaming.join.routing.strategies import DEFAULT_STRATEGY, STRATEGIES
from springline.spark_jobs.streaming.join.routing.strategies.costs import CostWeights
from springline.spark_jobs.streaming.kafka.topic_union import union_name
from springline.spark_jobs.streaming.kinds import Kind
from springline.spark_jobs.streaming.runtime.atomic_files import read_value, write_value
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.stage import COMMAND, StageSpec
from springline.spark_jobs.streaming.sources.layout import FORMS, fault_of_delimiter
from springline.spark_jobs.streaming.tracking.config import FIRST_PROCESSOR

_STEPS = "springline.spark_jobs.streaming.join"
_KEYS = {
    "on", "select", "parallelism", "max_units", "strategy", "max_imbalance", "migration_cost_weights",
    "rebalance_interval",
    "max_messages_per_round", "ttl", "max_rows", "start_from",
    "left", "right",
}  # fmt: skip
_SIDE_KEYS = {"topic", "alias", "format", "delimiter", "fields"}
_MOST_UNITS = 256
_CONDITION = "condition.json"  # the condition that the units store tuples for
_SETTINGS = {"left": "the fields of left", "right": "the fields of right", "where": "on", "select": "select"}

_CONDITIONS: Codec[ConditionSpec] = Codec(
    ConditionSpec, 1, "what the units of a join store tuples for", "reset the job, which then begins anew"
)


@dataclass(frozen=True)
class JoinJob(BaseJob):
    """Joins `left` and `right` on `condition`, on up to `max_units` units.

    `rebalance_config` says how tuples are placed. Stored tuples are kept for `ttl` seconds, or without limit if `ttl`
    is None; `Retention` defines which pairs are emitted then.
    """

    name: str
    left: RelationSource
    right: RelationSource
    condition: Condition
    rebalance_config: RebalanceConfig
    max_units: int
    rebalance_interval: float = 5.0
    max_messages_per_round: int = 200
    latest: bool = False
    ttl: float | None = None
    backpressure: BackpressureConfig = DEFAULT_CONFIG

    @property
    def sources(self) -> tuple[str, ...]:
        """The topics that the job reads: one for a self-join."""
        return tuple(dict.fromkeys((self.left.topic, self.right.topic)))

    @property
    def topic(self) -> str:
        """The source topics as one union topic."""
        return union_name(self.sources)

    @property
    def tuples(self) -> str:
        """The topic between routers and units."""
        return f"{self.name}.tuples"

    @property
    def copies(self) -> str:
        """The topic of stored tuples that migrate to another unit."""
        return f"{self.name}.copies"

    @property
    def parallelism_settings(self) -> Mapping[str, str]:
        """The topic between routers and units, whose partition count is `max_units`."""
        return {self.tuples: "max_units"}

    no_savepoint_reason = "a join goes back to its beginning alone, since where its tuples were before is not kept"

    def stages(self, units: int) -> tuple[StageSpec, ...]:
        """Return the stages: routers, each unit of which reads one partition, and units that store and probe."""
        condition = self.condition.as_json()
        route = StageSpec(
            "route", f"{_STEPS}.router:make_router", self.topic, units,
            {
                "left": self.left.as_json(), "right": self.right.as_json(),
                "units": self.max_units, "condition": condition, **({} if self.ttl is None else {"clocked": True}),
            },
            downstream=self.tuples, dead_letters=self.dead_letters, max_messages_per_round=self.max_messages_per_round,
            broadcast_files={TABLE: ROUTING},
            hold_files=(STOP, HOLD),
        )  # fmt: skip
        join = StageSpec(
            "join", f"{_STEPS}.unit.unit:JoinUnit", self.tuples, self.max_units,
            {
                "query": self.name, "condition": condition, "copies": self.copies,
                **({} if self.ttl is None else {"keep": self.ttl}),
            },
            stamped=True, results=self.results, feedback=self.copies, dead_letters=self.dead_letters,
            sender_index=FIRST_PROCESSOR, max_messages_per_round=10_000,
            hold_files=(STOP,),
        )  # fmt: skip
        return route, join

    def prepare(self, folder: JobFolder) -> None:
        """Create the initial routing table if there is none.

        Raises `InvalidJobError` if the units store tuples for another condition, and `DecodeError`.
        """
        condition, file = self.condition.spec, folder.path / _CONDITION
        if (stored := read_value(file, _CONDITIONS)) is None:
            folder.path.mkdir(parents=True, exist_ok=True)
            write_value(file, _CONDITIONS, condition)
            stored = condition
        if changed := [
            setting for name, setting in _SETTINGS.items() if getattr(condition, name) != getattr(stored, name)
        ]:
            raise InvalidJobError(
                f"job {self.name!r}: {', '.join(changed)} cannot be changed, since "
                f"its units hold tuples that were stored "
                "for what it was when it first ran: write that again, or let the job begin anew: "
                f"`{COMMAND} reset {self.name}`"
            )
        prepare_routing(folder, self.rebalance_config, self.max_units, self.condition.key_band)

    def services(self, context: ServiceContext) -> Sequence[BackgroundService]:
        """Return the service that rebalances the loads."""
        return [
            RebalanceService(
                self.rebalance_config, self.rebalance_interval, context.folder, context.stages, context.settings.cluster
            )
        ]

    def on_rewind(self, folder: JobFolder) -> None:
        """Delete the stored condition and reset the routing: the job restarts from the beginning of its topics."""
        (folder.path / _CONDITION).unlink(missing_ok=True)
        reset_routing(folder, self.rebalance_config, self.max_units, self.condition.key_band)


def read_join(job_table: JobTable) -> JoinJob:
    """Build a job from its table; raises `InvalidJobError`."""
    job_table.check(_KEYS, topic=False)
    left, right = _read_side(job_table, "left", "l"), _read_side(job_table, "right", "r")
    if left.topic == right.topic and not _is_same_source(left, right):
        raise InvalidJobError(
            f"{job_table.where}: left and right read the same topic, and declare it in different ways"
        )
    units = job_table.number("parallelism", 4, most=_MOST_UNITS)
    max_units = job_table.number("max_units", max(units, 8), most=_MOST_UNITS)
    if max_units < units:
        raise InvalidJobError(
            f"{job_table.where}: max_units = {max_units}, and there are {units} "
            f"units; max_units is how many there can be"
        )
    retention_seconds = _read_retention(job_table)
    max_rows = job_table.number("max_rows", 1) if "max_rows" in job_table.table else None
    try:
        condition = Condition.of(
            left.relation, right.relation, _read_text(job_table, "on"), _read_texts(job_table, "select")
        )
        config = RebalanceConfig(
            units, job_table.extension("strategy", STRATEGIES, DEFAULT_STRATEGY), _read_max_imbalance(job_table),
            _read_migration_cost_weights(job_table),
            expires=retention_seconds is not None or max_rows is not None, max_rows=max_rows,
        )  # fmt: skip
    except (InvalidConditionError, InvalidRelationError) as error:
        raise InvalidJobError(f"{job_table.where}: {error}") from error
    return JoinJob(
        job_table.name, left, right, condition, config, max_units, job_table.seconds("rebalance_interval", 5.0),
        job_table.number("max_messages_per_round", 200),
        job_table.latest, ttl=retention_seconds, backpressure=BackpressureConfig.from_table(job_table),
    )  # fmt: skip


KIND = Kind("join", read_join)


def _is_same_source(left: RelationSource, right: RelationSource) -> bool:
    """Whether both sides decode the same rows; CSV depends on the order of the fields."""
    fields = [list(side.relation.fields.items()) for side in (left, right)]
    return fields[0] == fields[1] and (left.form, left.delimiter) == (right.form, right.delimiter)


def _read_side(job_table: JobTable, name: str, alias: str) -> RelationSource:
    table = job_table.table.get(name)
    if not isinstance(table, dict):
        raise InvalidJobError(f"{job_table.where}: it needs a table [{job_table.name}.{name}]")
    side_table = JobTable(f"{job_table.where}, [{job_table.name}.{name}]", job_table.name, table)
    side_table.check(_SIDE_KEYS)
    fields: Any = table.get("fields")
    is_pairs = isinstance(fields, list) and all(isinstance(one, list) and len(one) == 2 for one in fields)
    if not is_pairs or not all(isinstance(text, str) for one in fields for text in one):
        raise InvalidJobError(
            f'{side_table.where}: fields must be a list such as [["orderkey", "int"], ["price", "float"]]'
        )
    if not isinstance(table.get("alias", alias), str):
        raise InvalidJobError(
            f"{side_table.where}: {table['alias']!r} cannot be the alias of a side: write a name such as {alias}"
        )
    delimiter = table.get("delimiter", ",")
    if fault := fault_of_delimiter(delimiter):
        raise InvalidJobError(f"{side_table.where}: {fault}")
    try:
        relation = Relation.of(table.get("alias", alias), fields)
    except InvalidRelationError as error:
        raise InvalidJobError(f"{side_table.where}: {error}") from error
    return RelationSource(side_table.topic, relation, side_table.choice("format", FORMS), delimiter)


def _read_text(job_table: JobTable, key: str) -> str:
    if not isinstance(value := job_table.table.get(key), str) or not value.strip():
        raise InvalidJobError(f'{job_table.where}: it needs {key} = "…", a predicate over both sides')
    return value


def _read_texts(job_table: JobTable, key: str) -> list[str]:
    value = job_table.table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise InvalidJobError(f"{job_table.where}: {key} must be a list of columns")
    return value


def _read_max_imbalance(job_table: JobTable) -> float:
    value = job_table.table.get("max_imbalance", 0.05)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
        raise InvalidJobError(f"{job_table.where}: max_imbalance must be a number from 0 to below 1")
    return float(value)


def _read_retention(job_table: JobTable) -> float | None:
    value = job_table.seconds("ttl", 1.0) if "ttl" in job_table.table else None
    if value is not None and not math.isfinite(value):
        raise InvalidJobError(f"{job_table.where}: ttl = inf; leave it out, and stored tuples are kept for ever")
    return value


def _read_migration_cost_weights(job_table: JobTable) -> CostWeights:
    value = job_table.table.get("migration_cost_weights", [0.2, 0.3, 0.5])
    numbers = isinstance(value, list) and all(isinstance(one, int | float) and one >= 0 for one in value)
    if not numbers or len(value) != 3 or abs(sum(value) - 1) > 1e-9:
        raise InvalidJobError(f"{job_table.where}: migration_cost_weights must be three numbers that add up to 1")
    return CostWeights(*map(float, value))
