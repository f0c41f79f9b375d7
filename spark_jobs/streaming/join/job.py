"""A job that joins two streams, over their full history or over a retention time; `JoinJobKeys` lists the keys.

[pairs]
kind = "join"
on = "l.orderkey = r.orderkey AND r.quantity > 10"

[pairs.left]
topic = "orders"
fields = [["orderkey", "int"], ["price", "float"], ["priority", "text"]]

[pairs.right]
topic = "lineitem"
fields = [["orderkey", "int"], ["quantity", "int"]]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from springline.persistence.errors import ExtensionError
from springline.persistence.model.codec import Codec
from springline.persistence.model.toml_table import Count, Name, Seconds
from springline.spark_jobs.streaming.backpressure.config import DEFAULT_CONFIG, BackpressureConfig
from springline.spark_jobs.streaming.errors import InvalidJobError
from springline.spark_jobs.streaming.job import BaseJob, ServiceContext
from springline.spark_jobs.streaming.job_folder import HOLD, STOP, JobFolder
from springline.spark_jobs.streaming.job_keys import StartKeys
from springline.spark_jobs.streaming.join.condition.condition import Condition, ConditionSpec
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.errors import InvalidConditionError, InvalidRelationError
from springline.spark_jobs.streaming.join.rebalance import ROUTING, RebalanceService, prepare_routing, reset_routing
from springline.spark_jobs.streaming.join.router import TABLE, RelationSource
from springline.spark_jobs.streaming.join.routing.controller import RebalanceConfig
from springline.spark_jobs.streaming.join.routing.strategies import DEFAULT_STRATEGY, DEFAULT_THETA, STRATEGIES
from springline.spark_jobs.streaming.join.routing.strategies.costs import CostWeights
from springline.spark_jobs.streaming.join.wire import MAX_UNITS
from springline.spark_jobs.streaming.kinds import Kind
from springline.spark_jobs.streaming.runtime.atomic_files import read_value, write_value
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.stage import COMMAND, StageSpec
from springline.spark_jobs.streaming.runtime.topic_union import union_name
from springline.spark_jobs.streaming.sources.errors import InvalidFormatError
from springline.spark_jobs.streaming.sources.format import open_format
from springline.spark_jobs.streaming.sources.schema import RowKeys
from springline.spark_jobs.streaming.tracking.config import FIRST_PROCESSOR

_STEPS = "springline.spark_jobs.streaming.join"
_TASKS = 2  # unless declared
_Units = Annotated[int, Meta(ge=1, le=MAX_UNITS)]
_Weight = Annotated[float, Meta(ge=0, le=1)]
_WEIGHTS_TOLERANCE = 1e-9
_CONDITION = "condition.json"  # the condition that the tasks store tuples for
_SETTINGS = {"left": "the fields of left", "right": "the fields of right", "where": "on", "select": "select"}

_CONDITIONS: Codec[ConditionSpec] = Codec(
    ConditionSpec, 1, "what the units of a join store tuples for", "reset the job"
)


@dataclass(frozen=True)
class JoinJob(BaseJob):
    """Joins `left` and `right` on `condition`, on up to `max_units` units, which `tasks` tasks run.

    `rebalance_config` says how tuples are placed. Stored tuples are kept for `ttl` seconds, or without limit if `ttl`
    is None; `Retention` defines which pairs are emitted then.
    """

    name: str
    left: RelationSource
    right: RelationSource
    condition: Condition
    rebalance_config: RebalanceConfig
    max_units: int
    tasks: int = _TASKS
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
        """The topic between routers and tasks."""
        return f"{self.name}.tuples"

    @property
    def copies(self) -> str:
        """The topic of stored tuples that migrate to another unit."""
        return f"{self.name}.copies"

    no_savepoint_reason = (
        "a join can only be rewound to its beginning, because earlier placements of its tuples are not stored"
    )

    def stages(self) -> tuple[StageSpec, ...]:
        """Return the stages: routers, which share the partitions of both topics, and tasks that store and probe."""
        condition = self.condition.as_json()
        route = StageSpec(
            "route", f"{_STEPS}.router:make_router", self.topic, self.tasks,
            {
                "left": self.left.as_json(), "right": self.right.as_json(),
                "units": self.max_units, "tasks": self.tasks, "condition": condition,
                **({} if self.ttl is None else {"expires": True}),
            },
            downstream=self.tuples, dead_letters=self.dead_letters, max_messages_per_round=self.max_messages_per_round,
            broadcast_files={TABLE: ROUTING},
            hold_files=(STOP, HOLD), parallelism_key="tasks",
        )  # fmt: skip
        join = StageSpec(
            "join", f"{_STEPS}.task.task:JoinTask", self.tuples, self.tasks,
            {
                "query": self.name, "condition": condition, "copies": self.copies, "units": self.max_units,
                "tasks": self.tasks, **({} if self.ttl is None else {"ttl": self.ttl}),
            },
            stamped=True, results=self.results, feedback=self.copies, dead_letters=self.dead_letters,
            sender_index=FIRST_PROCESSOR, max_messages_per_round=10_000,
            hold_files=(STOP,), parallelism_key="tasks",
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
                f"job {self.name!r}: {', '.join(changed)} cannot be changed after the first start, because the "
                f"stored tuples depend on it: restore the previous value, or reset the job: "
                f"`{COMMAND} reset {self.name}`"
            )
        prepare_routing(folder, self.rebalance_config, self.max_units, self.condition.key_band)

    def services(self, context: ServiceContext) -> Sequence[BackgroundService]:
        """Return the service that rebalances the loads."""
        return [
            RebalanceService(
                self.rebalance_config,
                self.rebalance_interval,
                context.folder,
                context.stages,
                context.settings.cluster,
                context.reports,
            )
        ]

    def on_rewind(self, folder: JobFolder) -> None:
        """Delete the stored condition and reset the routing: the job restarts from the beginning of its topics."""
        (folder.path / _CONDITION).unlink(missing_ok=True)
        reset_routing(folder, self.rebalance_config, self.max_units, self.condition.key_band)


class SideKeys(RowKeys, frozen=True, kw_only=True):
    """Keys of `left` and `right` in a join."""

    topic: Annotated[Name, Meta(description="topic of the side; the same topic on both sides is a self-join")]
    alias: Annotated[Name | None, Meta(description="name of the side in SQL; `l` on the left, `r` on the right")] = None


class JoinJobKeys(StartKeys, frozen=True, kw_only=True):
    """Keys of a join."""

    left: Annotated[SideKeys, Meta(description="one side")]
    right: Annotated[SideKeys, Meta(description="the other side")]
    on: Annotated[Name, Meta(description="predicate over both sides, in SQL")]
    select: Annotated[tuple[str, ...], Meta(description="columns of the results; all fields if empty")] = ()
    parallelism: Annotated[_Units, Meta(description="units that store and probe at the first start")] = 4
    max_units: Annotated[
        _Units | None,
        Meta(description="units that there can be; 8, or `parallelism` if that is more"),
    ] = None
    tasks: Annotated[
        _Units | None,
        Meta(description="tasks of each stage: they share the partitions of both topics, and run the units; 2, or "
                         "`max_units` if that is less"),
    ] = None  # fmt: skip
    strategy: Annotated[
        str, Meta(description="placement of tuples: heavy-split-work, heavy-split, djb, or one that a package adds")
    ] = DEFAULT_STRATEGY
    max_imbalance: Annotated[
        float,
        Meta(ge=0, lt=1, description="share of the mean load that a unit may have more before tuples migrate"),
    ] = DEFAULT_THETA
    migration_cost_weights: Annotated[
        tuple[_Weight, _Weight, _Weight],
        Meta(description="weights of routing, duplication and migration in the cost of a migration; they add up to 1"),
    ] = (0.2, 0.3, 0.5)
    rebalance_interval: Annotated[Seconds, Meta(description="seconds between two checks of the loads")] = 5.0
    max_messages_per_round: Annotated[Count, Meta(description="messages that a task reads at most in a round")] = 200
    ttl: Annotated[
        Seconds | None, Meta(description="seconds for which a stored tuple finds partners; without it, for ever")
    ] = None
    max_rows: Annotated[
        Count | None,
        Meta(description="number of newest tuples of both sides, approximately, that find partners; without it, all"),
    ] = None


def declare_join(name: str, keys: JoinJobKeys) -> JoinJob:
    """Create a job from its keys; raises `InvalidJobError`."""
    max_units = max(keys.parallelism, 8) if keys.max_units is None else keys.max_units
    if max_units < keys.parallelism:
        raise InvalidJobError(f"max_units = {max_units}; expected at least parallelism, {keys.parallelism}")
    tasks = min(_TASKS, max_units) if keys.tasks is None else keys.tasks
    if tasks > max_units:
        raise InvalidJobError(f"tasks = {tasks}; expected at most max_units, {max_units}")
    if abs(sum(keys.migration_cost_weights) - 1) > _WEIGHTS_TOLERANCE:
        raise InvalidJobError("migration_cost_weights: expected three numbers that add up to 1")
    left, right = _source_of("left", keys.left, "l"), _source_of("right", keys.right, "r")
    if left.topic == right.topic and not _is_same_source(left, right):
        raise InvalidJobError("left and right read the same topic: declare the same fields, format and options")
    try:
        condition = Condition.of(left.relation, right.relation, keys.on, keys.select)
        strategy = keys.strategy if keys.strategy == DEFAULT_STRATEGY else STRATEGIES.check(keys.strategy)
    except (InvalidConditionError, InvalidRelationError) as error:
        raise InvalidJobError(str(error)) from error
    except ExtensionError as error:
        raise InvalidJobError(f"strategy: {error}") from error
    config = RebalanceConfig(
        keys.parallelism, strategy, keys.max_imbalance, CostWeights(*keys.migration_cost_weights),
        expires=keys.ttl is not None or keys.max_rows is not None, max_rows=keys.max_rows,
    )  # fmt: skip
    return JoinJob(
        name, left, right, condition, config, max_units, tasks, keys.rebalance_interval, keys.max_messages_per_round,
        keys.latest, ttl=keys.ttl, backpressure=keys.backpressure_config(),
    )  # fmt: skip


KIND = Kind("join", JoinJobKeys, declare_join)


def _source_of(side: str, keys: SideKeys, alias: str) -> RelationSource:
    try:
        relation = Relation.of(keys.alias or alias, keys.fields)
        source = RelationSource(keys.topic, relation, keys.format, keys.format_options)
        open_format(source.layout, source.layout.fields)
    except (InvalidRelationError, InvalidFormatError) as error:
        raise InvalidJobError(f"{side}: {error}") from error
    return source


def _is_same_source(left: RelationSource, right: RelationSource) -> bool:
    """Whether both sides decode the same rows; CSV depends on the order of the fields."""
    fields = [list(side.relation.fields.items()) for side in (left, right)]
    return fields[0] == fields[1] and (left.format, left.format_options) == (right.format, right.format_options)
