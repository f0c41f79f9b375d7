"""The paper's three migrations, applied to planned loads: move-in, move-out, split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from springline.spark_jobs.streaming.join.routing.loads import Loads, Move
from springline.spark_jobs.streaming.join.routing.strategies.costs import CostWeights
from springline.spark_jobs.streaming.join.routing.table import Placement, RoutingTable, TableDraft
from springline.spark_jobs.streaming.join.wire import JoinSide

Key = tuple[JoinSide, int]


@dataclass(frozen=True)
class _KeyMove:
    """Tuples of a key to move to another unit."""

    key: Key
    receiver: int
    tuples: int


class MigrationPlanner:
    """Loads of units and parts of keys, updated by each planned migration; `moves` are the planned moves."""

    def __init__(self, table: RoutingTable, loads: Loads, theta: float, costs: CostWeights) -> None:
        self._table = table
        self._theta = theta
        self._costs = costs
        self._total = loads.total
        self._probes = {(heavy.side, heavy.key): heavy.probes for heavy in loads.heavy}
        self._changed_keys: set[Key] = set()
        self._split_keys = {key for side in JoinSide for key in ((side, one) for one in table.entries[side])}
        self.load = {unit: float(loads.of(unit)) for unit in range(table.max_units)}
        self.parts = {(one.side, one.key): {u: c for u, c in one.parts.items() if c} for one in loads.heavy}
        self.moves: list[Move] = []

    def mean(self, units: Sequence[int]) -> float:
        """Return the mean load of some units."""
        return sum(self.load[unit] for unit in units) / len(units)

    def imbalance(self, units: Sequence[int]) -> float:
        """Return the greatest imbalance of some units."""
        mean = self.mean(units)
        return max(abs(self.load[unit] - mean) for unit in units) / mean if mean else 0.0

    def move_in(self, unit: int, mean: float, cause: str) -> None:
        """Move keys with entries back to their home unit, if it has room for all their tuples; the biggest first."""
        away = {
            key: sum(count for one, count in self.parts[key].items() if one != unit)
            for key in self._split_keys & self.parts.keys()
            if self._home(key) == unit
        }
        for key in sorted(away, key=lambda one: (-away[one], one)):
            if away[key] and self.load[unit] + away[key] <= (1 + self._theta) * mean:
                for giver, tuples in sorted(self.parts[key].items()):
                    if giver != unit:
                        self._move(
                            giver, _KeyMove(key, unit, tuples), "move-in", f"{cause}: the unit is below the limit"
                        )
                self._split_keys.discard(key)

    def move_out(self, unit: int, receivers: Sequence[int], mean: float, cause: str) -> None:
        """Bring a unit within the bound: by whole keys at least cost (H1), otherwise by splitting the biggest (H2)."""
        choices = [self._complete_keys(unit, receivers, mean, biggest) for biggest in (True, False)]
        if feasible := [choice for choice in choices if choice]:
            for key_move in min(feasible, key=lambda key_moves: self._cost_of(key_moves)):
                self._move(unit, key_move, "move-out", f"{cause}, H1: the unit is above the limit")
        else:
            for key_move in self._divided_keys(unit, receivers, mean):
                kind = "move-out" if key_move.tuples == self.parts[key_move.key][unit] else "split"
                self._move(
                    unit, key_move, kind, f"{cause}, H2: moving whole keys cannot bring the unit within the limit"
                )

    def table(self) -> RoutingTable:
        """Return the table in which new tuples are distributed like the stored ones after the moves."""
        draft = TableDraft(self._table)
        for side, key in sorted(self._changed_keys):
            draft.route_key(
                side,
                key,
                Placement.from_shares({unit: count for unit, count in self.parts[side, key].items() if count}),
            )
        return draft.table()

    def _home(self, key: Key) -> int:
        return self._table.home(*key).units[0]

    def _keys_on(self, unit: int) -> dict[Key, int]:
        return {key: parts[unit] for key, parts in self.parts.items() if parts.get(unit)}

    def _complete_keys(self, unit: int, receivers: Sequence[int], mean: float, biggest: bool) -> list[_KeyMove]:
        """Choose whole keys to move, if that brings the unit within the bound and no other unit out of it."""
        low, high = (1 - self._theta) * mean, (1 + self._theta) * mean
        load = dict(self.load)
        key_moves = []
        for key, tuples in sorted(
            self._keys_on(unit).items(), key=lambda one: (-one[1] if biggest else one[1], one[0])
        ):
            if load[unit] <= high:
                break
            to = min(receivers, key=lambda one: (load[one], one), default=unit)
            if to != unit and load[unit] - tuples >= low and load[to] + tuples <= high:
                key_moves.append(_KeyMove(key, to, tuples))
                load[unit] -= tuples
                load[to] += tuples
        return key_moves if load[unit] <= high else []

    def _divided_keys(self, unit: int, receivers: Sequence[int], mean: float) -> list[_KeyMove]:
        """Choose parts of the keys with most tuples, so that the unit and the receivers are at the mean."""
        load = dict(self.load)
        key_moves = []
        for key, tuples in sorted(self._keys_on(unit).items(), key=lambda one: (-one[1], one[0])):
            remaining = tuples
            for to in sorted(receivers, key=lambda one: (load[one], one)):
                moved = int(min(remaining, load[unit] - mean, mean - load[to]))
                if moved > 0:
                    key_moves.append(_KeyMove(key, to, moved))
                    load[unit] -= moved
                    load[to] += moved
                    remaining -= moved
            if load[unit] <= (1 + self._theta) * mean:
                break
        return key_moves

    def _cost_of(self, key_moves: Sequence[_KeyMove]) -> float:
        return sum(self._cost(key_move, is_complete=True) for key_move in key_moves)

    def _cost(self, key_move: _KeyMove, *, is_complete: bool) -> float:
        entries = int(key_move.key not in self._split_keys and key_move.receiver != self._home(key_move.key))
        doubled = (
            0 if is_complete or key_move.receiver in self.parts[key_move.key] else self._probes.get(key_move.key, 0)
        )
        return self._costs.migration_cost(self._total, key_move.tuples, entries=entries, extra_probes=doubled)

    def _move(self, giver: int, key_move: _KeyMove, kind: str, cause: str) -> None:
        parts = self.parts[key_move.key]
        is_complete = key_move.tuples >= parts[giver]
        cost = self._cost(key_move, is_complete=is_complete)
        side, key = key_move.key
        share = 1.0 if is_complete else key_move.tuples / parts[giver]
        self.moves.append(
            Move(side, giver, key_move.receiver, key_move.tuples, kind, cause, key, (), share, 0.0, is_complete, cost)
        )
        parts[giver] -= key_move.tuples
        if not parts[giver]:
            del parts[giver]
        parts[key_move.receiver] = parts.get(key_move.receiver, 0) + key_move.tuples
        self.load[giver] -= key_move.tuples
        self.load[key_move.receiver] += key_move.tuples
        self._changed_keys.add(key_move.key)
        self._split_keys.add(key_move.key)
