"""Random rounds, epochs, copies, switches and changes of units: each pair is found exactly once, by every strategy.

Units are stand-ins: dictionaries that do what `forms.py` says. News reaches the controller late, copies take a while.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.router import TABLE, RelationSource, Router
from springline.spark_jobs.streaming.join.routing.controller import (
    ControllerState,
    JoinObservation,
    RebalanceConfig,
    decide,
    initial_state,
)
from springline.spark_jobs.streaming.join.routing.strategies import STRATEGIES
from springline.spark_jobs.streaming.join.routing.table import block_for
from springline.spark_jobs.streaming.join.wire import (
    ROWS,
    Action,
    EpochCommands,
    JoinSide,
    KeyBand,
    RoutedBatch,
    StateMigration,
    first_seq,
)
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.step import Input, Round, State
from tests.support.examples import examples
from tests.support.joins.join_tasks import mask_of

MAX_UNITS = 8
EQUAL, BAND, LESS = KeyBand(0, 0), KeyBand(-2, 1), KeyBand(1, None)
FIELDS = {"key": "int", "name": "int"}


@dataclass(frozen=True)
class Plain:
    """A condition whose key is a column."""

    key_band: KeyBand

    def fields(self, side: JoinSide) -> list[str]:
        return list(FIELDS)

    def filter(self, side: JoinSide, rows: pa.RecordBatch) -> Any:
        return np.ones(rows.num_rows, np.bool_)

    def keys(self, side: JoinSide, rows: pa.RecordBatch) -> Any:
        return rows.column("key").to_numpy(), np.ones(rows.num_rows, np.bool_)

    def routed_schema(self, side: JoinSide) -> pa.Schema:
        kinds = {"key": pa.int64(), "seq": pa.int64(), "unit": pa.uint8(), "action": pa.uint8(), "name": pa.int64()}
        return pa.schema(list(kinds.items()))

    def carried(self, side: JoinSide, rows: pa.RecordBatch) -> list[pa.Array]:
        return [rows.column("name")]


Tuple = tuple[int, int, int]  # key, seq, name


@dataclass
class Unit:
    """What is stored in a unit, and the copies that it made."""

    stored: dict[JoinSide, dict[int, Tuple]] = field(default_factory=lambda: {JoinSide.LEFT: {}, JoinSide.RIGHT: {}})
    arrived: Counter[JoinSide] = field(default_factory=Counter)
    copies: dict[int, list[Tuple]] = field(default_factory=dict)

    def copy(self, piece: StateMigration) -> None:
        """What a piece means of what is stored."""
        every = list(self.stored[piece.side].values())
        keys, seqs = (np.array([one[at] for one in every], np.int64) for at in (0, 1))
        self.copies[piece.id] = [one for one, good in zip(every, mask_of(piece, keys, seqs), strict=True) if good]


def work(units: list[Unit], tasks: int, task: int, sent: list[RoutedBatch], reach: KeyBand) -> Counter[tuple[int, int]]:
    """A round of a task: stores, then probes of all of its units, of which each partner answers once; the pairs."""
    pairs: Counter[tuple[int, int]] = Counter()
    own = units[task::tasks]
    for act in (Action.STORE, Action.PROBE):
        for one in sent:
            for key, seq, unit, action, name in zip(
                *(column.to_pylist() for column in one.tuples.columns), strict=True
            ):
                if action not in (act, Action.BOTH):
                    continue
                if act is Action.STORE:
                    assert unit % tasks == task and seq not in units[unit].stored[one.side]
                    units[unit].stored[one.side][seq] = (key, seq, name)
                    units[unit].arrived[one.side] += 1
                    continue
                for other, earlier, partner in (two for each in own for two in each.stored[one.side.other].values()):
                    if earlier < seq and fits(reach.from_side(one.side), other - key):
                        pairs[(name, partner) if one.side is JoinSide.LEFT else (partner, name)] += 1
    return pairs


def fits(reach: KeyBand, difference: int) -> bool:
    """Whether a right key so much above a left one is a partner's."""
    return (reach.low is None or difference >= reach.low) and (reach.high is None or difference <= reach.high)


@dataclass
class Simulation:
    """Two router units, all units there is room for on some tasks, the controller, and its last input."""

    control: RebalanceConfig
    reach: KeyBand
    itself: bool
    tasks: int
    course: ControllerState = field(init=False)
    units: list[Unit] = field(default_factory=lambda: [Unit() for _ in range(MAX_UNITS)])
    pairs: Counter[tuple[int, int]] = field(default_factory=Counter)
    round: int = 0
    rows: list[tuple[JoinSide, int, int]] = field(default_factory=list)
    gauges: dict[int, Any] = field(default_factory=dict)
    messages: int = 0

    def __post_init__(self) -> None:
        self.course = initial_state(self.control, MAX_UNITS, block_for(self.reach))
        left = RelationSource("one", Relation("l", FIELDS))
        right = RelationSource("one" if self.itself else "two", Relation("r", FIELDS))
        self.routers = [Router(left, right, MAX_UNITS, self.tasks, Plain(self.reach)) for _ in range(2)]
        self.states = [State(), State()]

    def step(self, keys_by_router: list[list[int]]) -> None:
        """One round of all routers, then of all units."""
        table_json = json.loads(json.dumps(self.course.table.as_json()))
        sent: list[list[RoutedBatch]] = [[] for _ in range(self.tasks)]
        for router, keys in enumerate(keys_by_router):
            sides = [JoinSide.LEFT, JoinSide.RIGHT] if self.itself else [JoinSide(router)]
            lines = []
            for key in keys:
                name = len(self.rows)
                self.rows.extend((side, key, name) for side in sides)
                lines.append(f"{key},{name}")
            message = Message(0, "\n".join(lines).encode(), partition=router)
            this = Round(1, self.round, 0.0, {TABLE: table_json})
            output = self.routers[router](self.states[router], Input("r", router, this, [message], {router: (0, 1)}))
            assert not output.dead_letters
            self.states[router] = output.state
            self.gauges[router] = json.loads(json.dumps(output.gauges))
            for task, batches in output.buffers.items():
                sent[task] += [self.sent(batch) for batch in batches]
        orders = [{json.dumps(to_json_value(one.commands)) for one in own if one.commands} for own in sent]
        assert all(own == orders[0] and len(own) <= 1 for own in orders)
        if orders[0]:
            self.obey(from_json_value(EpochCommands, json.loads(orders[0].pop()), "here"))
        for task, own in enumerate(sent):
            self.pairs += work(self.units, self.tasks, task, [one for one in own if one.tuples.num_rows], self.reach)
        self.round += 1

    def sent(self, batch: pa.RecordBatch) -> RoutedBatch:
        """Over the wire."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        routed_batch = RoutedBatch.read(sink.getvalue())
        assert routed_batch.round == self.round
        return routed_batch

    def obey(self, orders: EpochCommands) -> None:
        """At a cut: givers copy before receivers take in."""
        for piece in orders.copies:
            self.units[piece.giver].copy(piece)
        for switch in orders.cutovers:
            giver, receiver = self.units[switch.migration.giver], self.units[switch.migration.receiver]
            for one in giver.copies.pop(switch.migration.id):
                receiver.stored[switch.migration.side][one[1]] = giver.stored[switch.migration.side].pop(one[1])

    def decide(self, ready: random.Random) -> None:
        """What the controller decides from the reports; not all copies are complete yet."""
        units = {
            number: {
                "stored": {"left": len(unit.stored[JoinSide.LEFT]), "right": len(unit.stored[JoinSide.RIGHT])},
                "arrived": {"left": unit.arrived[JoinSide.LEFT], "right": unit.arrived[JoinSide.RIGHT]},
            }
            for number, unit in enumerate(self.units)
        }
        copied = {
            id_: (0, 1, len(copy)) for unit in self.units for id_, copy in unit.copies.items() if ready.random() < 0.7
        }
        decision = decide(
            self.course, JoinObservation.of_gauges(self.gauges, units, copied), self.control, len(self.routers)
        )
        assert decision.reasons
        self.course = ControllerState.decode(decision.state.encode(), "here")
        assert self.course == decision.state

    def check(self) -> None:
        """Against all pairs there are."""
        left, right = ([(key, name) for side, key, name in self.rows if side is own] for own in JoinSide)
        assert self.pairs == Counter((one, two) for a, one in left for b, two in right if fits(self.reach, b - a))


@pytest.mark.parametrize("strategy", STRATEGIES.names)
@settings(max_examples=examples(10), deadline=None)
@given(
    reach=st.sampled_from([EQUAL, EQUAL, BAND, LESS]),
    itself=st.booleans(),
    seed=st.integers(0, 1 << 20),
    theta=st.sampled_from([0.0, 0.05, 0.3]),
    changes=st.lists(st.tuples(st.integers(1, 14), st.integers(1, MAX_UNITS)), max_size=3),
)
def test_each_pair_is_found_once(strategy, reach, itself, seed, theta, changes):
    """Whatever moves meanwhile, and however late the controller hears of it."""
    chance = random.Random(seed)
    moved_at_once, in_flight = chance.choice([3, 10, 1000]), chance.choice([5, 50, 5000])
    control = RebalanceConfig(
        4, strategy, theta, migration_tuples=moved_at_once, in_flight_tuples=in_flight, min_tuples=1
    )
    simulation = Simulation(control, reach, itself, chance.choice([1, 2, MAX_UNITS]))
    units_by_round = dict(changes)
    for number in range(18):
        if number in units_by_round:
            simulation.control = replace(control, units=units_by_round[number])
        heavy = chance.choice([0, 1, 7])
        key_counts = [chance.randrange(12) for _ in simulation.routers]
        simulation.step([[chance.choice([heavy, chance.randrange(12)]) for _ in range(many)] for many in key_counts])
        for _ in range(chance.choice([0, 1, 1, 2])):
            simulation.decide(chance)
    simulation.check()


@pytest.mark.parametrize("strategy", STRATEGIES.names)
def test_a_smaller_number_of_units_leaves_the_others_empty(strategy):
    """Once all has moved: 4, then 8, then 3 units; what is no longer used holds nothing and is not probed."""
    simulation = Simulation(RebalanceConfig(4, strategy, 0.1, min_tuples=1), EQUAL, False, MAX_UNITS)
    chance = random.Random(5)
    for units in (4, 8, 3):
        simulation.control = RebalanceConfig(units, strategy, 0.1, migration_tuples=20, min_tuples=1)
        for _ in range(20):
            simulation.step([[chance.choice([1, chance.randrange(40)]) for _ in range(3)] for _ in simulation.routers])
            simulation.decide(random.Random(1))
        for _ in range(400):
            if not (simulation.course.copying or simulation.course.pending):
                break
            simulation.step([[], []])
            simulation.decide(random.Random(1))
        assert {u for side in JoinSide for place in simulation.course.table.places(side) for u in place.holds} <= set(
            range(units)
        )
        assert not any(unit.stored[side] for unit in simulation.units[units:] for side in JoinSide)
    simulation.check()


def test_seqs_of_a_round_fit():
    """The last row of a round comes before the first of the next unit."""
    assert first_seq(3, 1) - first_seq(3, 0) == 2 * ROWS
