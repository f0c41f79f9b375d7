"""The controller's decisions: from its state and the reports of units and routers to the next epoch.

An epoch is written only after all routers have applied the previous one, so that its commands are sure to be in a
round. A plan is carried out in this order: from the first epoch on, new tuples are stored at their new units;
migrations are copied, a bounded number of tuples at a time, while the giver continues to answer probes; once a copy
exists, a later epoch cuts over to it. No key or bucket is in two moves at a time, and no new plan is made until all
moves have completed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.join.routing.heavy_key_history import HeavyKeyHistory
from springline.spark_jobs.streaming.join.routing.loads import Loads, PlacementStrategy, RebalancePlan
from springline.spark_jobs.streaming.join.routing.moves import PendingMigration, cut_moves
from springline.spark_jobs.streaming.join.routing.sketch import Sketch, merge_sketches
from springline.spark_jobs.streaming.join.routing.strategies import DEFAULT_STRATEGY, strategy_of
from springline.spark_jobs.streaming.join.routing.strategies.costs import PAPER_WEIGHTS, CostWeights
from springline.spark_jobs.streaming.join.routing.table import SIDES, RoutingTable, TableDraft
from springline.spark_jobs.streaming.join.wire import Cutover, EpochCommands, JoinSide, StateMigration

_RETENTION_STEPS = 60  # steps in which the oldest of `max_rows` tuples expire
_REPLAN_SHARE = 0.01  # share of all tuples: after so many new ones, planning is tried again


@dataclass(frozen=True)
class RebalanceConfig:
    """Configuration of a join's controller.

    `units` are wanted; load imbalance up to `max_imbalance` is tolerated. A migration has at most `migration_tuples`
    tuples, and at most `in_flight_tuples` are in flight. All of these may be copied by one unit in one round, so the
    limit is some 10 to 50 MB. Below `min_tuples` tuples per unit the loads are too uncertain, and nothing is done. With
    `expires`, stored tuples expire; at least the newest `max_rows` are kept.
    """

    units: int
    strategy: str = DEFAULT_STRATEGY
    max_imbalance: float = 0.05
    costs: CostWeights = PAPER_WEIGHTS[0]
    migration_tuples: int = 125_000
    in_flight_tuples: int = 500_000
    min_tuples: int = 1_000
    expires: bool = False
    max_rows: int | None = None

    @property
    def placement_strategy(self) -> PlacementStrategy:
        """The strategy; raises `ExtensionError` and `InvalidRoutingError`."""
        return strategy_of(self.strategy, self.max_imbalance, self.costs)


@dataclass(frozen=True)
class JoinObservation:
    """The latest reports of routers and units, and the existing copies.

    `epochs` has the epoch of each router. `stored` has the tuples of each unit (left, right), including those in
    transit to it. `sketches` are the routers' merged sketches now, `epoch_sketches` those at the start of the routers'
    epochs. `copies` maps a migration's id to the offsets [start, end) of its copy and its tuple count. `pairs` is the
    number of results of all units. All routers have completed `round`, and had sent `received_tuples` tuples by then,
    or a few less.
    """

    epochs: Mapping[int, int]
    sketches: tuple[Sketch, Sketch]
    stored: Mapping[int, tuple[int, int]]
    copies: Mapping[int, tuple[int, int, int]] = field(default_factory=dict)
    epoch_sketches: tuple[Sketch, Sketch] | None = None
    pairs: int | None = None
    round: int = 0
    received_tuples: int = 0

    @staticmethod
    def of_gauges(
        routers: Mapping[int, Mapping[str, Any]],
        units: Mapping[int, Mapping[str, Any]],
        copies: Mapping[int, tuple[int, int, int]],
        pairs: int | None = None,
        number: int = 0,
    ) -> JoinObservation:
        """Build an observation from the gauges in reports, and from the locations of copies.

        Routers report `epoch`, `sketch`, `epoch_sketches`, and the number of tuples `sent` to be stored; units report
        the tuples `stored` and `arrived`; the difference is in transit. All routers have completed round `number`.
        """

        def sketches(name: str) -> tuple[Sketch, Sketch]:
            left, right = (
                merge_sketches(Sketch.from_json(gauges[name][side]) for _, gauges in sorted(routers.items()))
                for side in SIDES
            )
            return left, right

        def stored(unit: int, side: JoinSide) -> int:
            name = side.name.lower()
            sent = sum(gauges["sent"][side][unit] for gauges in routers.values())
            return int(units[unit]["stored"][name] + max(sent - units[unit]["arrived"][name], 0))

        return JoinObservation(
            {router: gauges["epoch"] for router, gauges in routers.items()},
            sketches("sketch"),
            {unit: (stored(unit, JoinSide.LEFT), stored(unit, JoinSide.RIGHT)) for unit in units},
            copies,
            sketches("epoch_sketches"),
            pairs,
            number,
            sum(sum(map(sum, gauges["sent"])) for gauges in routers.values()),
        )


@dataclass(frozen=True)
class ControllerState:
    """State of the controller: the current table, migrations that are copied, migrations that are pending, heavy keys.

    `previous_table` is the table before it, while tuples routed by that are not counted yet. `planned_tuples` is the
    total of tuples at the last planning that found no plan. Tuples of router rounds before `retained_since` are
    expired; `round_marks` are pairs of a round and the number of tuples received until its end.
    """

    table: RoutingTable
    copying: tuple[PendingMigration, ...] = ()
    pending: tuple[PendingMigration, ...] = ()
    heavy_keys: HeavyKeyHistory = field(default_factory=HeavyKeyHistory)
    next_id: int = 1
    previous_table: RoutingTable | None = None
    planned_tuples: int = 0
    retained_since: int = 0
    round_marks: tuple[tuple[int, int], ...] = ()

    def encode(self) -> bytes:
        """Encode for a file; its tables are packed as in rounds."""
        previous_table = None if self.previous_table is None else self.previous_table.as_json()
        return _CONTROLLER_STATES.encode(
            _StoredControllerState(
                self.table.as_json(), self.copying, self.pending, self.heavy_keys, self.next_id, previous_table,
                self.planned_tuples, self.retained_since, self.round_marks,
            )
        )  # fmt: skip

    @staticmethod
    def decode(content: bytes, where: str) -> ControllerState:
        """The inverse of `encode`; `where` is the file. Raises `DecodeError`."""
        stored = _CONTROLLER_STATES.decode(content, where)
        previous_table = None if stored.previous_table is None else RoutingTable.from_json(stored.previous_table)
        return ControllerState(
            RoutingTable.from_json(stored.table), stored.copying, stored.pending, stored.heavy_keys, stored.next_id,
            previous_table,
            stored.planned_tuples, stored.retained_since, stored.round_marks,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _StoredControllerState:
    """A `ControllerState` as stored in its file."""

    table: dict[str, Any]
    copying: tuple[PendingMigration, ...]
    pending: tuple[PendingMigration, ...]
    heavy_keys: HeavyKeyHistory
    next_id: int
    previous_table: dict[str, Any] | None
    planned_tuples: int
    retained_since: int
    round_marks: tuple[tuple[int, int], ...]


_CONTROLLER_STATES: Codec[_StoredControllerState] = Codec(
    _StoredControllerState, 1, "the state of a join's controller", "reset the job"
)


@dataclass(frozen=True)
class RebalanceDecision:
    """The next state, and the reasons; `table` is the next epoch's table, or None if there is no new epoch."""

    state: ControllerState
    reasons: tuple[str, ...]
    table: RoutingTable | None = None


def initial_state(config: RebalanceConfig, max_units: int, block: int = 0) -> ControllerState:
    """Return the state before the first tuple."""
    return ControllerState(config.placement_strategy.first(max_units, config.units, block))


def decide(
    state: ControllerState, observation: JoinObservation, config: RebalanceConfig, routers: int
) -> RebalanceDecision:
    """Decide the next step, with `routers` router units."""
    table = state.table
    late_routers = sorted(unit for unit in range(routers) if observation.epochs.get(unit, 0) < table.epoch)
    if late_routers:
        return RebalanceDecision(state, (f"epoch {table.epoch} is not yet used by routers {late_routers}",))
    state = _with_new_tuples(state, observation)
    state, cutovers = _cut_over(state, observation)
    reasons = [f"piece {one.migration.id} is copied: cut over to it" for one in cutovers]
    if not (state.copying or state.pending or cutovers):
        state, plan_reasons = _start_plan(state, loads_of(state, observation, config), config)
        reasons += plan_reasons
    state, copies = _start_copies(state, config, cutovers)
    reasons += [f"copy piece {one.migration.id}: {one.summary}" for one in copies]
    retained_since, state = state.retained_since, _expire_rounds(state, observation, config)
    if expires_rounds := state.retained_since > retained_since:
        reasons.append(f"rows of router rounds before {state.retained_since} expire: max_rows = {config.max_rows:,}")
    if state.table == table and not cutovers and not copies and not expires_rounds:
        under_way = len(state.copying) + len(state.pending)
        summary = f"{under_way} migrations are in progress" if under_way else "nothing to do: within the limit"
        return RebalanceDecision(state, (*reasons, summary))
    commands = EpochCommands(
        table.epoch + 1,
        tuple(one.migration for one in copies),
        tuple(Cutover(one.migration, *observation.copies[one.migration.id][:2]) for one in cutovers),
        state.retained_since,
    )
    next_table = replace(state.table, epoch=table.epoch + 1, commands=commands)
    return RebalanceDecision(replace(state, table=next_table, previous_table=table), tuple(reasons), next_table)


def _with_new_tuples(state: ControllerState, observation: JoinObservation) -> ControllerState:
    """Count the new tuples by key: those before the current epoch were routed by the previous table."""
    heavy_keys = state.heavy_keys
    if state.previous_table is not None and observation.epoch_sketches is not None:
        heavy_keys = heavy_keys.with_sketches(state.previous_table, observation.epoch_sketches)
    return replace(state, heavy_keys=heavy_keys.with_sketches(state.table, observation.sketches), previous_table=None)


def loads_of(state: ControllerState, observation: JoinObservation, config: RebalanceConfig) -> Loads:
    """Return the loads for strategies.

    Heavy keys are counted over all tuples ever received; if tuples expire, their share of the remaining ones is assumed
    to be the same.
    """
    heavy = state.heavy_keys.heavy(observation.sketches)
    if config.expires:
        stored = [sum(own[side] for own in observation.stored.values()) for side in SIDES]
        remaining = [min(stored[side] / max(observation.sketches[side].total, 1), 1.0) for side in SIDES]
        heavy = [one.scale(remaining[one.side], remaining[one.side.other]) for one in heavy]
    return Loads(observation.stored, heavy, observation.pairs)


def _cut_over(state: ControllerState, observation: JoinObservation) -> tuple[ControllerState, list[PendingMigration]]:
    """Return the state after the cutover to all existing copies, and the completed migrations."""
    completed = [one for one in state.copying if one.migration.id in observation.copies]
    if not completed:
        return state, []
    draft, heavy_keys = TableDraft(state.table), state.heavy_keys
    remaining = [one for one in (*state.copying, *state.pending) if one not in completed]
    for number, one in enumerate(completed):
        rest = [*remaining, *completed[number + 1 :]]
        is_last = one.is_complete and not any(
            one.group == other.group and one.subjects & other.subjects for other in rest
        )
        exhausted = [one.migration.giver] if is_last else []
        for side, subject, bucket in one.places():
            places: Any = draft.buckets[side] if bucket else draft.entries[side]
            places[subject] = places[subject].with_holders([one.migration.receiver], exhausted)
        heavy_keys = heavy_keys.with_migration(
            one, observation.copies[one.migration.id][2], state.table, is_last=is_last
        )
    copying = tuple(one for one in state.copying if one not in completed)
    return replace(state, table=draft.table(), copying=copying, heavy_keys=heavy_keys), completed


def _start_plan(state: ControllerState, loads: Loads, config: RebalanceConfig) -> tuple[ControllerState, list[str]]:
    """Start the next plan, once no migration is in progress: its table and its pending migrations."""
    draft = TableDraft(state.table)
    reasons = (
        [f"{cleared} entries cleared: their keys are on their home units"] if (cleared := draft.clear_entries()) else []
    )
    state = replace(state, table=draft.table()) if cleared else state
    plan = next_plan(state, loads, config)
    if plan is None:
        return replace(
            state, planned_tuples=state.planned_tuples if _skips_planning(state, loads, config) else loads.total
        ), reasons
    migrations = cut_moves(plan.moves, state.next_id, config.migration_tuples)
    return (
        replace(
            state,
            table=plan.table,
            pending=tuple(migrations),
            next_id=state.next_id + len(migrations),
            planned_tuples=0,
        ),
        [*reasons, *plan.reasons],
    )


def _expire_rounds(state: ControllerState, observation: JoinObservation, config: RebalanceConfig) -> ControllerState:
    """Expire the rounds with only tuples older than the newest `max_rows`, in steps of a 60th of `max_rows`."""
    if config.max_rows is None:
        return state
    round_marks = state.round_marks
    if not round_marks or observation.received_tuples - round_marks[-1][1] >= max(
        config.max_rows // _RETENTION_STEPS, 1
    ):
        round_marks = (*round_marks, (observation.round, observation.received_tuples))
    expired = [mark for mark in round_marks if mark[1] <= observation.received_tuples - config.max_rows]
    retained_since = max([state.retained_since, *(number + 1 for number, _ in expired)])
    return replace(state, retained_since=retained_since, round_marks=round_marks[len(expired) :])


def next_plan(state: ControllerState, loads: Loads, config: RebalanceConfig) -> RebalancePlan | None:
    """Return the plan that the strategy would make now; a change of the number of units is never deferred."""
    return (
        None
        if _skips_planning(state, loads, config)
        else config.placement_strategy.plan(state.table, loads, config.units)
    )


def _skips_planning(state: ControllerState, loads: Loads, config: RebalanceConfig) -> bool:
    """Whether planning is skipped: too few tuples, or hardly more than at the last planning without a plan."""
    if config.units != len(state.table.units):
        return False
    return (
        loads.total < config.min_tuples * config.units
        or abs(loads.total - state.planned_tuples) < _REPLAN_SHARE * loads.total
    )


def _start_copies(
    state: ControllerState, config: RebalanceConfig, cutovers: list[PendingMigration]
) -> tuple[ControllerState, list[PendingMigration]]:
    """Choose the migrations to copy now: in order, up to the limit, and none whose subject an earlier one is moving."""
    busy = {subject: one.group for one in (*state.copying, *cutovers) for subject in one.subjects}
    in_flight = sum(one.tuples for one in state.copying)
    copies, pending = [], []
    for one in state.pending:
        group, subjects = one.group, one.subjects
        is_free = all(busy.get(subject, group) == group for subject in subjects)
        if is_free and (not in_flight or in_flight + one.tuples <= config.in_flight_tuples):
            copies.append(replace(one, migration=_without_entries(one.migration, state.table)))
            in_flight += one.tuples
        else:
            pending.append(one)
        for subject in subjects:
            busy.setdefault(subject, group)
    return replace(state, copying=(*state.copying, *copies), pending=tuple(pending)), copies


def _without_entries(migration: StateMigration, table: RoutingTable) -> StateMigration:
    if not migration.buckets:
        return migration
    own = table.keys_by_bucket[migration.side]
    return replace(
        migration,
        block=table.block,
        excluded_keys=tuple(key for bucket in migration.buckets for key in own.get(bucket, ())),
    )
