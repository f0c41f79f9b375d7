"""The unit: stores tuples of both sides, and answers probes with the pairs that they make with what is stored.

It takes a router round as a whole, once every router unit has ended it: first what the round's epoch asks for, then it
stores the round's tuples, then it probes. A stored tuple answers only probes of a greater seq. What a round of the
stage has no room for waits, and nothing is stored, copied or switched before it is answered. Where tuples are kept for
a while only, the round's clock says which of them answer it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from springline.persistence.model.codec import from_plain, plain
from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.errors import InvalidCommandsError
from springline.spark_jobs.streaming.join.unit.compaction import Shape
from springline.spark_jobs.streaming.join.unit.copy_retention import Needing
from springline.spark_jobs.streaming.join.unit.inbox import WAITING, WHERE, Waiting
from springline.spark_jobs.streaming.join.unit.migration import Copied, parts_of, taken_in
from springline.spark_jobs.streaming.join.unit.migration_select import Cut
from springline.spark_jobs.streaming.join.unit.probe import Answers, Place
from springline.spark_jobs.streaming.join.unit.retention import Retention
from springline.spark_jobs.streaming.join.unit.runs import Run, bytes_of, joined
from springline.spark_jobs.streaming.join.unit.store import Known, Store
from springline.spark_jobs.streaming.join.wire import Orders, Piece, Side, Switch, first_seq
from springline.spark_jobs.streaming.runtime.step import Input, Output, State

_STORED = {Side.LEFT: "left", Side.RIGHT: "right"}
_PROBES = {Side.LEFT: "probes-left", Side.RIGHT: "probes-right"}


class JoinUnit:
    """The step of one unit of the join `query`, with pieces on their way in `copies`.

    `condition` is a `Condition` as JSON, `most_pairs` how many pairs a round of the stage emits at most, `shape` tells
    the sizes of what is stored. Tuples are kept for `keep` seconds (see `Retention`), or for ever.
    """

    def __init__(
        self,
        query: str,
        condition: Mapping[str, Any],
        copies: str,
        most_pairs: int = 1_000_000,
        shape: Shape | None = None,
        keep: float | None = None,
    ) -> None:
        self._query = query
        self._condition = Condition.from_json(condition)
        self._copies = copies
        self._most = most_pairs
        self._shape = shape or Shape()
        self._keep = keep
        self._known: dict[int, Known] = {}  # of each unit, the runs of its last state: what was found out of them

    def __call__(self, state: State, given: Input) -> Output:
        """One round."""
        stored = _stored(state, self._known.get(given.unit, {}), self._shape)
        kept = None if self._keep is None else _kept(state, self._keep)
        work = _Work(state, given, self._condition, self._copies, stored, kept)
        answers = Answers(self._condition, self._query, self._most)
        while True:
            if work.place is None:
                if answers.full or not work.begin():
                    break
            elif not work.answer(answers):
                break
        work.counts["pairs"] = answers.pairs
        self._known[given.unit] = work.known
        return Output(
            work.state(), results=answers.results, tells=work.tells, counts=dict(sorted(work.counts.items())),
            gauges=work.gauges(), needs=work.needing.since,
        )  # fmt: skip


class _Work:
    """One round of the stage in a unit; `place` is where the probes of router round `number` are to be gone on with."""

    def __init__(
        self,
        state: State,
        given: Input,
        condition: Condition,
        copies: str,
        stored: Mapping[Side, Store],
        retention: Retention | None,
    ) -> None:
        told = state.scalars
        self._given = given
        self._condition = condition
        self._topic = copies
        self.number: int = told.get("round", 0)
        self.epoch: int = told.get("epoch", 0)
        self._arrived = Counter(told.get("arrived", {}))
        self.place = from_plain(Place, told["place"], WHERE) if told.get("place") else None
        copied = from_plain(tuple[Copied, ...], told.get("copied", ()), WHERE)
        self._copied = {each.piece.id: each for each in copied}
        self.needing = from_plain(Needing, told.get("needing", {}), WHERE)
        self._stores = dict(stored)
        self._retention = retention
        self._since: int = told.get("since", 0)
        self._probes: dict[Side, Run | None] = {
            side: next((Run(batch) for batch in state.runs.get(_PROBES[side], ())), None) for side in Side
        }
        self.tells: list[pa.RecordBatch] = []
        self.counts: Counter[str] = Counter()
        self._waiting = Waiting.of(state)
        self.counts["rows"] = self._waiting.take(given, condition, self.number)

    def begin(self) -> bool:
        """Begin the next router round, up to its probes; False if it is not whole."""
        number = self._waiting.next(self.number)
        if number is None:
            return False
        self.number = number
        gathered = self._waiting.gather(number)
        orders = gathered.orders
        if orders is not None and orders.epoch != self.epoch:
            self._obey(orders, gathered.clock)
        else:
            self._expire(gathered.clock)
        for side in Side:
            self._stores[side] = self._stores[side].plus(gathered.stores[side])
            self.counts["stored"] += len(gathered.stores[side] or ())
            self._arrived[_STORED[side]] += len(gathered.stores[side] or ())
            self.counts["probes"] += len(gathered.probes[side] or ())
        self._probes = dict(gathered.probes)
        self.place = Place()
        return True

    def answer(self, answers: Answers) -> bool:
        """Go on with the round's probes; False if there was no room for all of them."""
        assert self.place is not None
        for side in range(self.place.side, len(Side)):
            here = self.place if side == self.place.side else Place(Side(side))
            left = answers.answer(self._probes[here.side], self._stores[here.side.other], here)
            if left is not None:
                self.place = left
                return False
        self.place = None
        self._probes = dict.fromkeys(Side)
        self._stores = {side: store.settled() for side, store in self._stores.items()}
        return True

    def _obey(self, orders: Orders, clock: float | None) -> None:
        """What an epoch asks for at the cut before this round: drop, take in, then copy of what is there now.

        What has expired is purged in between, when the fewest pieces are copied and not dropped.
        """
        if orders.epoch < self.epoch:
            raise InvalidCommandsError(f"{self._where}: epoch {orders.epoch} comes after epoch {self.epoch}")
        self.epoch = orders.epoch
        self._since = orders.since
        self.needing.obey(orders)
        unit = self._given.unit
        for side in Side:
            self._drop([each.piece for each in orders.switches if (each.piece.giver, each.piece.side) == (unit, side)])
        self._expire(clock)
        for side in Side:
            self._take_in([each for each in orders.switches if (each.piece.receiver, each.piece.side) == (unit, side)])
            self._copy([piece for piece in orders.copies if (piece.giver, piece.side) == (unit, side)])

    def _expire(self, clock: float | None) -> None:
        """Let go what has expired in this round, or was ordered to, if tuples are not kept for ever."""
        expired = first_seq(self._since)
        if self._retention is not None:
            if clock is not None:
                self._retention = self._retention.at(self.number, clock)
            expired = max(expired, self._retention.expired)
        leaving = {copied.piece.side for copied in self._copied.values()}
        for side, store in self._stores.items():
            self._stores[side] = store.expiring(expired, purging=side not in leaving)

    def _drop(self, pieces: Sequence[Piece]) -> None:
        """Drop exactly what was copied of some pieces of one side."""
        if not pieces:
            return
        copies = [self._copied.pop(piece.id, None) for piece in pieces]
        cuts = []
        for piece, copied in zip(pieces, copies, strict=True):
            if copied is None or copied.piece != piece:
                raise InvalidCommandsError(
                    f"{self._where}: piece {piece.id} was not copied here, and is to be switched"
                )
            cuts.append(Cut(piece, copied.before))
        side = pieces[0].side
        self._stores[side], counts = self._stores[side].without(cuts)
        for copied, dropped in zip(copies, counts, strict=True):
            assert copied is not None
            if dropped != copied.rows:
                raise InvalidCommandsError(
                    f"{self._where}: {copied.rows} tuples of piece {copied.piece.id} were copied, and {dropped} are "
                    "there now: another piece of the same keys came in or left meanwhile"
                )
        self.counts["dropped"] += sum(counts)

    def _take_in(self, switches: Sequence[Switch]) -> None:
        """Store the copies of some pieces of one side."""
        runs = [
            taken_in(each, self._given.source(self._topic, each.piece.giver, each.start, each.to)) for each in switches
        ]
        if run := joined(runs):
            self.counts["taken in"] += len(run)
            side = switches[0].piece.side
            self._stores[side] = self._stores[side].taking(run)

    def _copy(self, pieces: Sequence[Piece]) -> None:
        """Copy some pieces of one side."""
        if not pieces:
            return
        side, before = pieces[0].side, first_seq(self.number)
        found = self._stores[side].extract([Cut(piece, before) for piece in pieces])
        for piece, batches in zip(pieces, found, strict=True):
            parts = parts_of(piece, self._condition.tuple_schema(side), batches)
            rows, size = sum(part.num_rows for part in parts), sum(bytes_of(part) for part in parts)
            copied = Copied(piece, before, rows, size, len(parts), self._given.round.number)
            self._copied[piece.id] = copied
            self.tells += parts
            self.counts["copied"] += rows

    @property
    def _where(self) -> str:
        return f"{self._given.stage}, unit {self._given.unit}, router round {self.number}"

    def state(self) -> State:
        """What is remembered."""
        scalars = {
            **self._waiting.scalars(),
            "round": self.number,
            "epoch": self.epoch,
            "arrived": self._came(),
            "place": plain(self.place),
            "copied": plain([self._copied[piece] for piece in sorted(self._copied)]),
            "needing": plain(self.needing),
            "stores": {_STORED[side]: store.told for side, store in self._stores.items()},
        }
        runs = {_STORED[side]: store.batches for side, store in self._stores.items()}
        runs |= {_PROBES[side]: () if run is None else (run.batch,) for side, run in self._probes.items()}
        runs[WAITING] = self._waiting.batches()
        if self._retention is not None:
            scalars["kept"] = plain(self._retention)
        if self._since:
            scalars["since"] = self._since
        return State(scalars, {name: batches for name, batches in runs.items() if batches})

    def _came(self) -> dict[str, int]:
        """How many tuples routers have sent to be stored here."""
        return {name: self._arrived[name] for name in _STORED.values()}

    @property
    def known(self) -> Known:
        """What is stored, by the identity of its batches."""
        return {id(each.run.batch): each.run for store in self._stores.values() for each in store.segments}

    def gauges(self) -> dict[str, Any]:
        """How full the unit is, how far, and which pieces it has copied that are not switched yet.

        Tuples that have expired are among those that are stored until they vanish.
        """
        return {
            "stored": {_STORED[side]: len(store) for side, store in self._stores.items()},
            "bytes": sum(store.bytes for store in self._stores.values()),
            "arrived": self._came(),
            "round": self.number,
            "epoch": self.epoch,
            "pending": {
                "rounds": max(self._waiting.whole - self.number, 0) + (self.place is not None),
                "tuples": self._waiting.tuples,
                "probes": sum(len(run or ()) for run in self._probes.values()),
            },
            "copied": {str(piece): copied.told() for piece, copied in sorted(self._copied.items())},
        }


def _kept(state: State, keep: float) -> Retention:
    """The router rounds that a state holds; they are kept for as long as the job says now."""
    told = state.scalars.get("kept")
    return Retention(keep) if told is None else replace(from_plain(Retention, told, WHERE), keep=keep)


def _stored(state: State, known: Known, shape: Shape) -> dict[Side, Store]:
    """What a state holds of either side."""
    told = state.scalars.get("stores", {})
    return {side: Store.of(state.runs.get(name, ()), told.get(name), known, shape) for side, name in _STORED.items()}
