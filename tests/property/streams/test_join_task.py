"""A task of a join finds each pair once, as DuckDB does, however rows, cuts, bounds and moves fall."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, zip_longest
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import event, given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.wire import (
    GREATEST,
    LEAST,
    EpochCommands,
    JoinSide,
    StateMigration,
    first_seq,
)
from tests.support.examples import examples
from tests.support.joins.join_tasks import JoinTasks, rows_of

LEFT = Relation("l", {"id": "int", "a": "int", "x": "float", "name": "text", "key": "int"})
RIGHT = Relation("r", {"id": "int", "b": "int", "y": "float", "name": "text", "seq": "int"})
PREDICATES = (
    "l.a = r.b AND l.x < r.y",
    "l.a + 1 = r.b - 1 AND l.key <> r.seq",
    "l.a = r.y",
    "l.a = r.b AND l.name = r.name AND l.x <= r.y",
    "abs(l.a - r.b) <= 1 AND l.name = 'TRUCK' AND l.x > -1",
    "abs(r.b - l.a) < 3 AND l.id % 2 = r.id % 2",
    "r.b - l.a BETWEEN 1 AND 2 AND l.x + r.y > 0",
    "l.x BETWEEN r.y - 1 AND r.y + 0.25 AND l.name || 'X' = r.name || 'X'",
    "2 >= abs(l.a - r.y)",
    "r.b + 3 <= l.a AND (l.name = r.name OR l.key = 1)",
    "r.y > l.a AND r.name IS NULL",
    "l.a - r.b <= -2 AND l.a - r.b >= -2",
    "l.a = r.b AND l.a = r.seq AND coalesce(l.name, '') LIKE 'T%'",
    "2 * l.a = r.b AND true",
)
small = st.none() | st.integers(-4, 4)
numbers = st.none() | st.sampled_from([-2.0, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 3.0])
texts = st.none() | st.sampled_from(["", "T", "TRUCK", "X"])


def rows(relation: Relation, identity: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Rows of a side, each with an id of its own."""
    of = {"int": small, "float": numbers, "text": texts}
    kinds = {name: of[kind] for name, kind in relation.fields.items() if name != "id"}
    return st.fixed_dictionaries({"id": st.builds(lambda: next(identity)), **kinds})


def expected(rounds: list[list[dict[JoinSide, list[Any]]]], where: str) -> Counter[Any]:
    """What DuckDB says."""
    database = duckdb.connect()
    for relation, side in ((LEFT, JoinSide.LEFT), (RIGHT, JoinSide.RIGHT)):
        rows = [row for one in rounds for router in one for row in router[side]]
        database.register(relation.alias, pa.Table.from_batches([rows_of(relation, rows)]))
    return Counter(database.execute(f"SELECT l.id, r.id FROM l, r WHERE {where}").fetchall())


class Moves:
    """A controller that moves pieces at random: copies some, and switches to copies that are there."""

    def __init__(self, data: st.DataObject, join_tasks: JoinTasks) -> None:
        self.data, self.join_tasks = data, join_tasks
        self.flying: dict[int, StateMigration] = {}
        self.epoch = self.pieces = 0

    def orders(self) -> EpochCommands | None:
        """What the next round asks for, if anything."""
        draw = self.data.draw
        ready = [each for piece in self.flying.values() if (each := self.join_tasks.switch(piece)) is not None]
        switches = [each for each in ready if draw(st.booleans(), "switch")]
        copies = []
        for _ in range(draw(st.integers(0, 2), "copies")):
            piece = self._piece()
            if piece is not None and not any(_meet(piece, other) for other in self.flying.values()):
                self.pieces += 1
                self.flying[piece.id] = piece
                copies.append(piece)
        for switch in switches:
            del self.flying[switch.migration.id]
        if not copies and not switches:
            return None
        self.epoch += 1
        return EpochCommands(self.epoch, tuple(copies), tuple(switches))

    def _piece(self) -> StateMigration | None:
        draw, units = self.data.draw, self.join_tasks.units
        giver = draw(st.integers(0, units - 1), "giver")
        receiver = draw(st.integers(0, units - 1), "receiver")
        if receiver == giver:
            return None
        low, high = sorted(draw(st.tuples(*[st.integers(-5, 5)] * 2), "keys"))
        keys = draw(st.sampled_from([(low, high), (LEAST, GREATEST), (LEAST, low)]), "range")
        cut = first_seq(draw(st.integers(1, self.join_tasks.round + 1), "seqs"))
        seqs = draw(st.sampled_from([(0, GREATEST), (cut, GREATEST), (0, cut)]), "part")
        return StateMigration(self.pieces, JoinSide(draw(st.integers(0, 1), "side")), giver, receiver, keys, seqs)


def _meet(piece: StateMigration, other: StateMigration) -> bool:
    return piece.side is other.side and piece.keys[0] <= other.keys[1] and other.keys[0] <= piece.keys[1]


def run(
    data: st.DataObject,
    join_tasks: JoinTasks,
    rounds: list[list[dict[JoinSide, list[Any]]]],
    clocks: Sequence[float] = (),
) -> None:
    """Route all rounds, at these clocks, with tasks that lag behind each other, and pieces on the move."""
    draw = data.draw
    moves = Moves(data, join_tasks)
    spread = draw(st.sampled_from(["key", "seq", "one"]), "spread")
    both = draw(st.booleans(), "both")

    def store(side: JoinSide, key: int, seq: int) -> int:
        return {"key": key, "seq": seq, "one": 0}[spread] % join_tasks.units

    for of_routers, clock in zip_longest(rounds, clocks, fillvalue=join_tasks.clock):
        join_tasks.clock = clock
        join_tasks.route(of_routers, store, moves.orders(), both, draw_merge(data))
        for task in join_tasks.tasks:
            for _ in range(draw(st.integers(0, 2), "steps")):
                join_tasks.step(task, draw(st.integers(task.at, len(task.log)), "upto"))
    join_tasks.finish()


def draw_merge(data: st.DataObject) -> Any:
    """Messages of several routers in some order that keeps that of each."""

    def merge(parts: list[list[Any]]) -> list[Any]:
        merged, parts = [], [list(part) for part in parts]
        while any(parts):
            number_of_part = data.draw(st.sampled_from([number for number, part in enumerate(parts) if part]), "whose")
            merged.append(parts[number_of_part].pop(0))
        return merged

    return merge


def rounds_of(data: st.DataObject, routers: int, most: int = 6) -> list[list[dict[JoinSide, list[Any]]]]:
    """Rows of each router in a few rounds."""
    identity = iter(range(10**6))
    sides = {JoinSide.LEFT: rows(LEFT, identity), JoinSide.RIGHT: rows(RIGHT, identity)}
    one = st.fixed_dictionaries({side: st.lists(each, max_size=6) for side, each in sides.items()})
    return data.draw(st.lists(st.lists(one, min_size=routers, max_size=routers), min_size=1, max_size=most))


@settings(max_examples=examples(75), deadline=None)
@given(st.data(), st.sampled_from(PREDICATES), st.integers(1, 3), st.integers(1, 4), st.sampled_from([1, 3, 10**6]))
def test_each_pair_comes_out_once_whatever_happens_on_the_way(
    data: st.DataObject, where: str, routers: int, units: int, most: int
) -> None:
    """Messages are cut anywhere, results are bounded, pieces move from unit to unit while rows come in."""
    tasks = data.draw(st.integers(1, units), "tasks")
    condition = Condition.of(LEFT, RIGHT, where, ["l.id AS one", "r.id AS two"])
    join_tasks = JoinTasks(condition, routers, units, most, tasks=tasks)
    rounds = rounds_of(data, routers)
    run(data, join_tasks, rounds)
    assert join_tasks.pairs == expected(rounds, where)
    assert all(task.most <= most for task in join_tasks.tasks)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.data(), st.sampled_from(["l.a = r.b", "l.a < r.b", "abs(l.a - r.b) <= 1"]), st.integers(1, 2),
    st.integers(1, 3), st.sampled_from([3, 10**6]), st.sampled_from([0.1, 60.0, 3600.0]),
)  # fmt: skip
def test_pairs_are_emitted_as_far_apart_as_tuples_are_retained(
    data: st.DataObject, where: str, routers: int, units: int, most: int, keep: float
) -> None:
    """By the clocks of the routers' rounds, wherever tuples are and however far units lag behind."""
    tasks = data.draw(st.integers(1, units), "tasks")
    condition = Condition.of(LEFT, RIGHT, where, ["l.id AS one", "r.id AS two"])
    join_tasks = JoinTasks(condition, routers, units, most, keep, tasks)
    rounds = rounds_of(data, routers, 10)
    steps = st.sampled_from([0.0, 0.3, 1.0, 10.0, 29.5, 30.0, 59.0, 60.0, 60.5, 61.0, 200.0])
    first = data.draw(st.floats(0.0, 2e9), "first")
    jumps = data.draw(st.lists(steps, min_size=len(rounds), max_size=len(rounds)), "jumps")
    clocks = list(accumulate((jump * keep / 60 for jump in jumps[1:]), initial=first))
    run(data, join_tasks, rounds, clocks)
    arrival_times = {
        row["id"]: Fraction(clock)
        for of_routers, clock in zip(rounds, clocks, strict=True)
        for router in of_routers
        for side in JoinSide
        for row in router[side]
    }
    every, tick = expected(rounds, where), Fraction(keep) / 60
    assert join_tasks.pairs == {
        pair: 1 for pair in every if abs(arrival_times[pair[0]] // tick - arrival_times[pair[1]] // tick) <= 60
    }
    for one, two in every:
        apart = abs(arrival_times[one] - arrival_times[two])
        assert (
            (one, two) in join_tasks.pairs if apart <= keep else apart < 61 * tick or (one, two) not in join_tasks.pairs
        )
    event(f"pairs are left out: {len(join_tasks.pairs) < len(every)}")
