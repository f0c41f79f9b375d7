"""The paper's three migrations on loads as they are planned: move-in, move-out, split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from springline.spark_jobs.streaming.join.routing.loads import Loads, Move
from springline.spark_jobs.streaming.join.routing.strategies.costs import Costs
from springline.spark_jobs.streaming.join.routing.table import Draft, Place, Table
from springline.spark_jobs.streaming.join.wire import Side

Key = tuple[Side, int]


@dataclass(frozen=True)
class _Give:
    """Tuples of a key for another unit."""

    key: Key
    receiver: int
    tuples: int


class Migrating:
    """Loads of units and parts of keys, as each migration that is planned leaves them; `moves` are those planned."""

    def __init__(self, table: Table, loads: Loads, theta: float, costs: Costs) -> None:
        self._before = table
        self._theta = theta
        self._costs = costs
        self._total = loads.total
        self._probes = {(heavy.side, heavy.key): heavy.probes for heavy in loads.heavy}
        self._touched: set[Key] = set()
        self._split = {key for side in Side for key in ((side, one) for one in table.entries[side])}
        self.load = {unit: float(loads.of(unit)) for unit in range(table.room)}
        self.parts = {(one.side, one.key): {u: c for u, c in one.parts.items() if c} for one in loads.heavy}
        self.moves: list[Move] = []

    def mean(self, units: Sequence[int]) -> float:
        """The mean load of some units."""
        return sum(self.load[unit] for unit in units) / len(units)

    def imbalance(self, units: Sequence[int]) -> float:
        """Their greatest imbalance."""
        mean = self.mean(units)
        return max(abs(self.load[unit] - mean) for unit in units) / mean if mean else 0.0

    def move_in(self, unit: int, mean: float, why: str) -> None:
        """Keys that have entries come home to the unit, where it has room for all that is away; the biggest first."""
        away = {
            key: sum(count for one, count in self.parts[key].items() if one != unit)
            for key in self._split & self.parts.keys()
            if self._home(key) == unit
        }
        for key in sorted(away, key=lambda one: (-away[one], one)):
            if away[key] and self.load[unit] + away[key] <= (1 + self._theta) * mean:
                for giver, tuples in sorted(self.parts[key].items()):
                    if giver != unit:
                        self._move(giver, _Give(key, unit, tuples), "move-in", f"{why}: the unit is under the bound")
                self._split.discard(key)

    def move_out(self, unit: int, receivers: Sequence[int], mean: float, why: str) -> None:
        """Bring the unit within the bound: by whole keys (H1), at least cost, or else by splitting the biggest (H2)."""
        choices = [self._whole(unit, receivers, mean, biggest) for biggest in (True, False)]
        if found := [choice for choice in choices if choice]:
            for give in min(found, key=lambda gives: self._cost_of(gives)):
                self._move(unit, give, "move-out", f"{why}, H1: the unit is over the bound")
        else:
            for give in self._parted(unit, receivers, mean):
                kind = "move-out" if give.tuples == self.parts[give.key][unit] else "split"
                self._move(unit, give, kind, f"{why}, H2: no whole keys would bring the unit within the bound")

    def table(self) -> Table:
        """The table with future tuples shared as those that are there will be."""
        draft = Draft(self._before)
        for side, key in sorted(self._touched):
            draft.route_key(
                side, key, Place.at({unit: count for unit, count in self.parts[side, key].items() if count})
            )
        return draft.table()

    def _home(self, key: Key) -> int:
        return self._before.home(*key).units[0]

    def _on(self, unit: int) -> dict[Key, int]:
        return {key: parts[unit] for key, parts in self.parts.items() if parts.get(unit)}

    def _whole(self, unit: int, receivers: Sequence[int], mean: float, biggest: bool) -> list[_Give]:
        """All tuples of some keys, if that brings the unit within the bound and takes no other one out of it."""
        low, high = (1 - self._theta) * mean, (1 + self._theta) * mean
        load = dict(self.load)
        gives = []
        for key, tuples in sorted(self._on(unit).items(), key=lambda one: (-one[1] if biggest else one[1], one[0])):
            if load[unit] <= high:
                break
            to = min(receivers, key=lambda one: (load[one], one), default=unit)
            if to != unit and load[unit] - tuples >= low and load[to] + tuples <= high:
                gives.append(_Give(key, to, tuples))
                load[unit] -= tuples
                load[to] += tuples
        return gives if load[unit] <= high else []

    def _parted(self, unit: int, receivers: Sequence[int], mean: float) -> list[_Give]:
        """Parts of the keys with most tuples, such that the unit and those who receive are at the mean."""
        load = dict(self.load)
        gives = []
        for key, tuples in sorted(self._on(unit).items(), key=lambda one: (-one[1], one[0])):
            left = tuples
            for to in sorted(receivers, key=lambda one: (load[one], one)):
                given = int(min(left, load[unit] - mean, mean - load[to]))
                if given > 0:
                    gives.append(_Give(key, to, given))
                    load[unit] -= given
                    load[to] += given
                    left -= given
            if load[unit] <= (1 + self._theta) * mean:
                break
        return gives

    def _cost_of(self, gives: Sequence[_Give]) -> float:
        return sum(self._cost(give, whole=True) for give in gives)

    def _cost(self, give: _Give, *, whole: bool) -> float:
        entries = int(give.key not in self._split and give.receiver != self._home(give.key))
        doubled = 0 if whole or give.receiver in self.parts[give.key] else self._probes.get(give.key, 0)
        return self._costs.of(self._total, give.tuples, entries=entries, doubled=doubled)

    def _move(self, giver: int, give: _Give, kind: str, why: str) -> None:
        parts = self.parts[give.key]
        whole = give.tuples >= parts[giver]
        cost = self._cost(give, whole=whole)
        side, key = give.key
        share = 1.0 if whole else give.tuples / parts[giver]
        self.moves.append(Move(side, giver, give.receiver, give.tuples, kind, why, key, (), share, 0.0, whole, cost))
        parts[giver] -= give.tuples
        if not parts[giver]:
            del parts[giver]
        parts[give.receiver] = parts.get(give.receiver, 0) + give.tuples
        self.load[giver] -= give.tuples
        self.load[give.receiver] += give.tuples
        self._touched.add(give.key)
        self._split.add(give.key)
