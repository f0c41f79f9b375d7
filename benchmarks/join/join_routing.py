"""Routing of a join by counts alone: messages a tuple, how level units are, how much migrates, for every strategy.

Tuples of both sides come with Zipf's distribution over 100,000 keys; strategies and controller are the real ones and
know the sketches' estimates. A message is a tuple sent to a unit. `bound` is what no placement can go below if no
unit is to store more than 1.05 of the mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass, field

import numpy as np
import numpy.typing as npt

from benchmarks.join.inputs import STRATEGIES, zipf
from benchmarks.report import Goal, Report, Row
from springline.spark_jobs.streaming.join.buckets import BUCKETS, bucket_of
from springline.spark_jobs.streaming.join.routing.controller import (
    ControllerState,
    JoinObservation,
    RebalanceConfig,
    decide,
    initial_state,
)
from springline.spark_jobs.streaming.join.routing.sketch import TOP, Sketch
from springline.spark_jobs.streaming.join.routing.strategies.costs import PAPER_WEIGHTS, CostWeights
from springline.spark_jobs.streaming.join.routing.table import SIDES, RoutingTable
from springline.spark_jobs.streaming.join.wire import SEQ_HASHES, JoinSide, StateMigration

KEYS = 100_000
THETA = 0.05
OURS = "heavy-split"  # what the bound is for: units level in tuples
_CASES = [(name, costs) for name in STRATEGIES for costs in (PAPER_WEIGHTS if name == "djb" else PAPER_WEIGHTS[:1])]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def run(size: str) -> Report:
    """24 and 48 units, z = 1, 1.5 and 2; 10 M tuples (full: 40 M) in 200 samples of the controller."""
    tuples = 40_000_000 if size == "full" else 10_000_000
    rows: list[Row] = []
    goals: list[Goal] = []
    for units in (24, 48):
        for z in (1.0, 1.5, 2.0):
            bound = bound_of(zipf(KEYS, z), units)
            for name, costs in _CASES:
                result = _Simulation(name, units, z, tuples, costs).run()
                label = name if name != "djb" else f"djb, {', '.join(f'{weight:g}' for weight in astuple(costs))}"
                rows.append({"units": units, "z": z, "strategy": label, **result, "bound": round(bound, 3)})
                if name == OURS:
                    goals += _goals(units, z, result, bound)
            rows.append({"units": units, "z": z, "strategy": "matrix", **_matrix(units), "bound": round(bound, 3)})
    remarks = [
        f"{tuples:,} tuples, half of them left, {KEYS:,} keys; the same keys are heavy on both sides; equality.",
        "Load is of stored tuples, greatest beside mean; probed, of probes that units get; pairs, of those that "
        "meet what units have stored; migrated, of all tuples.",
        "level_from: the share of tuples after which no unit was above 1.1 of the mean any more.",
        "The bound holds once units are level: a run that is not at first can be a little below it.",
        "djb's numbers are the weights of routing, duplication and migration in a migration's cost: the paper's three.",
        "matrix: every tuple is stored in a whole row or column, which is what its messages are.",
    ]
    return Report("join_routing", size, rows, goals, remarks)


def _goals(units: int, z: float, result: Row, bound: float) -> Iterator[Goal]:
    where = f"{units} units, z = {z:g}"
    yield _at_most(f"messages beside the bound, {where}", result["messages"] / bound, 1.05)
    yield _at_most(f"load, greatest beside mean, {where}", result["load"], 1.05)
    yield _at_most(f"migrated share, {where}", result["migrated"], 0.02)


def _at_most(goal: str, measured: float, limit: float) -> Goal:
    return Goal(goal, round(measured, 4), f"at most {limit:g}", measured <= limit)


def bound_of(shares: Floats, units: int) -> float:
    """Messages a tuple at the least, both sides having these shares of keys, no unit more than 1.05 of the mean.

    With the left tuples of a key on a units, the right ones on b, and o of these the same, a left tuple is sent to b,
    and to one more if it is stored on none of them; at most o units' worth of the key's tuples is stored on those o.
    """
    return float(
        sum(share * _messages(share / 2, (1 + THETA) / units) for share in shares if share * units > 1)
    ) + float(shares[shares * units <= 1].sum())


def _messages(side: float, cap: float) -> float:
    """Of a tuple of a key that has so much on each side, where so much fits on a unit."""
    least, most = int(np.ceil(side / cap - 1e-9)), int(np.ceil(2 * side / cap - 1e-9))
    return min(
        (a + b) / 2 + max(0.0, 1 - o * cap / (2 * side))
        for a in range(least, most + 1)
        for b in range(a, most + 1)
        for o in range(a + 1)
        if (a + b - o) * cap >= 2 * side - 1e-9
    )


def _matrix(units: int) -> Row:
    """The matrix model on the squarest grid: level, whatever the keys are."""
    rows = max(side for side in range(1, units + 1) if units % side == 0 and side * side <= units)
    messages = (rows + units // rows) / 2
    return {
        "messages": messages,
        "load": 1.0,
        "probed": 1.0,
        "pairs": 1.0,
        "migrated": 0.0,
        "level_from": 0.0,
        "entries": 0,
    }


@dataclass
class _Simulation:
    """Tuples of each key on each unit, by side, as the table sends them."""

    name: str
    units: int
    z: float
    tuples: int
    costs: CostWeights = PAPER_WEIGHTS[0]
    samples: int = 200
    stored: Floats = field(init=False)
    counts: Ints = field(init=False)
    shares: Floats = field(init=False)
    messages: float = 0.0
    migrated: float = 0.0

    def __post_init__(self) -> None:
        random = np.random.default_rng(7)
        self.shares = zipf(KEYS, self.z)
        self.keys = random.permutation(np.arange(KEYS, dtype=np.int64) * 7919 + 13)
        self.buckets = bucket_of(self.keys)
        self.stored = np.zeros((2, self.units, KEYS))
        self.counts = np.zeros((2, KEYS), np.int64)
        self.probes = np.zeros(self.units)
        self.random = random
        self.left: dict[tuple[int, ...], float] = {}
        self.at = {int(key): place for place, key in enumerate(self.keys)}

    def run(self) -> Row:
        """All samples; copies are there at the next one."""
        control = RebalanceConfig(self.units, self.name, THETA, self.costs)
        course = initial_state(control, self.units)
        ready: dict[int, tuple[int, int, int]] = {}
        late = 0
        for number in range(self.samples):
            self._come(course.table)
            decision = decide(course, self._observation(course, ready), control, 1)
            course, ready = decision.state, self._obey(decision.table)
            load = self.stored.sum(axis=(0, 2))
            late = number + 1 if load.max() > 1.1 * load.mean() else late
        load = self.stored.sum(axis=(0, 2))
        pairs = (self.stored * self.counts[::-1, np.newaxis]).sum(axis=(0, 2))
        return {
            "messages": round(float(self.messages / self.counts.sum()), 3),
            "load": round(float(load.max() / load.mean()), 3),
            "probed": round(float(self.probes.max() / self.probes.mean()), 2),
            "pairs": round(float(pairs.max() / pairs.mean()), 2),
            "migrated": round(self.migrated / float(self.counts.sum()), 4),
            "level_from": round(late / self.samples, 3),
            "entries": sum(len(own) for own in course.table.entries),
        }

    def _come(self, table: RoutingTable) -> None:
        """A sample's tuples."""
        shares, each = self.shares, self.tuples // self.samples // 2
        new = self.random.multinomial(each, shares, size=2)
        self.counts += new
        everyone = {side: table.holders(side) for side in SIDES} if table.probes_everywhere else {}
        for places, which in self._placed(table):
            for side in SIDES:
                own, holds = places[side], everyone.get(side.other) or places[side.other].holds
                arrived = new[side][which]
                for unit in own.units:
                    self.stored[side, unit, which] += arrived * own.share(unit)
                    self.messages += arrived.sum() * own.share(unit) * (len(holds) + (unit not in holds))
                self.probes[list(holds)] += arrived.sum()

    def _placed(self, table: RoutingTable) -> Iterator[tuple[tuple, Ints]]:
        """Places of both sides, with the keys that have them."""
        special = sorted({*table.entries[0], *table.entries[1]} & self.at.keys())
        numbers: dict[tuple, int] = {}
        of_bucket = np.array(
            [numbers.setdefault((table.buckets[0][b], table.buckets[1][b]), len(numbers)) for b in range(BUCKETS)]
        )
        of_key = of_bucket[self.buckets]
        for key in special:
            two = (table.place(JoinSide.LEFT, key), table.place(JoinSide.RIGHT, key))
            of_key[self.at[key]] = numbers.setdefault(two, len(numbers))
        order = np.argsort(of_key, kind="stable")
        ends = np.cumsum(np.bincount(of_key, minlength=len(numbers)))
        for places, number in numbers.items():
            which = order[ends[number - 1] if number else 0 : ends[number]]
            if which.size:
                yield places, which

    def _observation(self, course: ControllerState, ready: dict[int, tuple[int, int, int]]) -> JoinObservation:
        sketches = []
        for side in SIDES:
            top = np.argpartition(-self.counts[side], TOP)[:TOP]
            top = top[np.argsort(self.keys[top])]
            sketches.append(Sketch(self.keys[top], self.counts[side][top], int(self.counts[side].sum())))
        stored = self.stored.sum(axis=2)
        loads = {unit: (int(stored[0, unit]), int(stored[1, unit])) for unit in range(self.units)}
        return JoinObservation({0: course.table.epoch}, (sketches[0], sketches[1]), loads, ready)

    def _obey(self, table: RoutingTable | None) -> dict[int, tuple[int, int, int]]:
        """Copies are through at once, and go on to be switched to; what comes meanwhile is small."""
        if table is None:
            return {}
        for switch in table.commands.cutovers:
            self._move(switch.migration)
        return {piece.id: (0, 1, int(self._size(piece))) for piece in table.commands.copies}

    def _keys_of(self, piece: StateMigration) -> Ints:
        if not piece.buckets:
            return np.array([self.at[piece.keys[0]]])
        named = np.isin(self.buckets, piece.buckets) & ~np.isin(self.keys, piece.excluded_keys)
        return np.flatnonzero(named)

    def _share(self, piece: StateMigration, *, is_moved: bool) -> float:
        """Of what the giver has now: earlier parts of the same whole are gone."""
        share = (piece.part[1] - piece.part[0]) / SEQ_HASHES
        group = (piece.side, piece.keys[0], piece.giver, piece.salt)
        left = self.left.get(group, 1.0)
        if is_moved:
            self.left[group] = left - share
        return min(share / max(left, 1e-9), 1.0)

    def _size(self, piece: StateMigration) -> float:
        return float(self.stored[piece.side, piece.giver, self._keys_of(piece)].sum()) * self._share(
            piece, is_moved=False
        )

    def _move(self, piece: StateMigration) -> None:
        which = self._keys_of(piece)
        moved = self.stored[piece.side, piece.giver, which] * self._share(piece, is_moved=True)
        self.stored[piece.side, piece.giver, which] -= moved
        self.stored[piece.side, piece.receiver, which] += moved
        self.migrated += float(moved.sum())
