"""Random trees, orders, losses, retries, changes of the ring: what completes is what was processed, no more, no less.

The oracle knows no check values: it keeps which of an attempt's messages have come.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import xor

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.tracking.acker.table import AckTable
from springline.spark_jobs.streaming.tracking.ids import child, root_edge
from springline.spark_jobs.streaming.tracking.ring import AckerRing
from springline.spark_jobs.streaming.tracking.root_id import root_id
from tests.support.examples import examples

CIRCLES = {ackers: AckerRing.of(ackers) for ackers in ((0,), (0, 1), (1, 2), (0, 1, 2), (2,))}

shapes = st.lists(st.integers(0, 30), max_size=5)
ranges = st.lists(
    st.tuples(st.sampled_from([(1, 1), (5, 1), (30, 1), (1, 6), (2, 4)]), st.integers(0, 2)), min_size=1, max_size=4
)


Event = tuple[str, int, int, int]  # what it is; a root, an attempt and a message's number, or a range's number


def tree(root: int, attempt: int, shape: list[int]) -> list[int]:
    """What each message of an attempt XORs in: the registration, then the ack of every tuple.

    Tuple i is a child of an earlier one, or of the root; equal words of one emission differ by their index alone.
    """
    edges, parents = [root_edge(root, attempt)], [0]
    for index, draw in enumerate(shape, 1):
        parents.append(draw % index)
        edges.append(child(edges[parents[-1]], 1, index))
    emitted = [
        [edge for edge, parent in zip(edges[1:], parents[1:], strict=True) if parent == i] for i in range(len(edges))
    ]
    return [reduce(xor, emitted[i], edges[i] if i else 0) for i in range(len(edges))]


@dataclass
class Oracle:
    """Which messages of the latest attempt of each root have come."""

    sizes: dict[tuple[int, int], int]
    messages_by_root: dict[int, tuple[int, set[int]]] = field(default_factory=dict)
    processed: Counter[int] = field(default_factory=Counter)

    def hear(self, root: int, attempt: int, message: int) -> None:
        latest, messages = self.messages_by_root.get(root, (attempt, set()))
        if attempt < latest:
            return
        messages = (messages if attempt == latest else set()) | {message}
        self.messages_by_root[root] = attempt, messages
        if len(messages) == self.sizes[root, attempt]:
            del self.messages_by_root[root]
            self.processed[root] += 1


@dataclass
class Simulation:
    """The tables of three ackers, in both layouts, and the oracle."""

    oracle: Oracle
    prompt: bool
    circle: AckerRing = CIRCLES[0, 1]
    before: AckerRing = CIRCLES[0, 1]
    processed: dict[str, Counter[int]] = field(default_factory=lambda: {"slots": Counter(), "dense": Counter()})

    def __post_init__(self) -> None:
        self.tables = {
            layout: [AckTable(layout, acker, self.circle) for acker in range(3)] for layout in ("slots", "dense")
        }

    def turn(self, ackers: tuple[int, ...]) -> None:
        self.before, self.circle = self.circle, CIRCLES[ackers]
        if self.prompt:
            self.forward()

    def forward(self) -> None:
        """Every acker hands on what is not its own."""
        for tables in self.tables.values():
            for table in tables:
                out = table.release(self.circle)
                owners = self.circle.owners_of(out.roots)
                for acker in set(owners.tolist()):
                    tables[acker].adopt(out.select(owners == acker))

    def compare(self) -> None:
        """Nothing is complete that was not processed; if all is at its owner, all that was processed is complete."""
        for layout, tables in self.tables.items():
            for table in tables:
                self.processed[layout].update(table.drain_completed().roots.tolist())
                table._check()
            assert self.processed[layout] <= self.oracle.processed
            if self.prompt:
                assert self.processed[layout] == self.oracle.processed
        if self.prompt:
            for one, other in zip(*self.tables.values(), strict=True):
                assert one.snapshot().equals(other.snapshot())

    def lost(self) -> None:
        """What is unfinished at the end is found by sweeping, and nothing else is."""
        for tables in self.tables.values():
            swept = [table.sweep(2**25 - 1) for table in tables]
            unfinished = {
                int(root): (int(attempt), registered)
                for expired in swept
                for roots, attempts, registered in (
                    (expired.roots, expired.attempts, True),
                    (expired.unregistered_roots, expired.unregistered_attempts, False),
                )
                for root, attempt in zip(roots, attempts, strict=True)
            }
            assert unfinished == {
                root: (attempt, 0 in messages) for root, (attempt, messages) in self.oracle.messages_by_root.items()
            }
            assert sum(table.in_flight for table in tables) == 0


@settings(max_examples=examples(120), deadline=None)
@given(st.data(), ranges, st.lists(shapes, min_size=1, max_size=8), st.booleans(), st.integers(0, 2**32))
def test_a_root_is_complete_exactly_when_every_tuple_of_an_attempt_was_processed(
    data: st.DataObject, drawn: list[tuple[tuple[int, int], int]], kinds: list[list[int]], prompt: bool, seed: int
) -> None:
    """Either every sender knows the circle in force, and there may be several attempts; or senders lag behind it.

    (With both, an acker that only hands on may see all of an attempt that its owner knows to be over: that is complete,
    too, and it was processed.)
    """
    chance, offset = random.Random(seed), 1
    lossy, attempts = data.draw(st.sampled_from([0.0, 0.05, 0.3])), data.draw(st.integers(1, 3)) if prompt else 1
    values: dict[tuple[int, int], list[int]] = {}
    runs, events = [], []
    for (messages, rows), partition in drawn:
        runs.append((partition, offset, messages, rows))
        roots = [root_id(partition, offset + step, row) for step in range(messages) for row in range(rows)]
        events.append(("range", len(runs) - 1, 1, 0))
        for root in roots:
            for attempt in range(1, attempts + 1):
                if attempt > 1 and chance.random() < 0.5:
                    break
                values[root, attempt] = tree(root, attempt, kinds[chance.randrange(len(kinds))])
                first = 1 if attempt == 1 else 0
                events += [
                    ("ack" if i else "retry", root, attempt, i) for i in range(first, len(values[root, attempt]))
                ]
        offset += messages
    events = [event for event in events if event[0] == "range" or chance.random() >= lossy]
    if data.draw(st.booleans()):
        chance.shuffle(events)
    turns = data.draw(st.lists(st.tuples(st.integers(0, 30), st.sampled_from(sorted(CIRCLES))), max_size=3))
    simulation = Simulation(Oracle({key: len(tree_messages) for key, tree_messages in values.items()}), prompt)
    for at, buffer in enumerate(buffers(events)):
        for _, ackers in (turn for turn in turns if turn[0] == at):
            simulation.turn(ackers)
        send(
            simulation,
            simulation.circle if prompt else chance.choice([simulation.circle, simulation.before]),
            buffer,
            values,
            runs,
        )
        if simulation.prompt or chance.random() < 0.1:
            simulation.compare()
    simulation.prompt = True
    simulation.forward()
    simulation.compare()
    simulation.lost()


def buffers(events: list[Event]) -> Iterator[list[Event]]:
    """Up to eight acks that follow each other, of any attempts; all else alone."""
    buffer: list[Event] = []
    for event in events:
        if buffer and (len(buffer) == 8 or event[0] != "ack" or buffer[0][0] != "ack"):
            yield buffer
            buffer = []
        buffer.append(event)
    if buffer:
        yield buffer


def send(
    simulation: Simulation,
    sent: AckerRing,
    buffer: list[Event],
    values: dict[tuple[int, int], list[int]],
    runs: list[tuple[int, int, int, int]],
) -> None:
    """Apply a range, a retry or some acks to the tables, by the circle that the sender knows, and to the oracle."""
    kind = buffer[0][0]
    if kind == "range":
        partition, offset, messages, rows = runs[buffer[0][1]]
        roots = [root_id(partition, offset + step, row) for step in range(messages) for row in range(rows)]
        owners = sent.owners_of(np.array(roots, np.uint64))
        for acker in sent.ackers:
            part = [values[root, 1][0] for root, owner in zip(roots, owners, strict=True) if owner == acker]
            for tables in simulation.tables.values():
                edges = np.array(part, np.uint64)
                tables[acker].register_range(partition, offset, messages, rows, edges, 1, 1, ring=sent)
        for root in roots:
            simulation.oracle.hear(root, 1, 0)
        return
    ids = np.array([root for _, root, _, _ in buffer], np.uint64)
    attempts = np.array([attempt for _, _, attempt, _ in buffer], np.uint8)
    edges = np.array([values[root, attempt][message] for _, root, attempt, message in buffer], np.uint64)
    owners = sent.owners_of(ids)
    for acker in set(owners.tolist()):
        is_own = owners == acker
        for tables in simulation.tables.values():
            tell = tables[acker].ack if kind == "ack" else tables[acker].register
            tell(ids[is_own], attempts[is_own], edges[is_own], 1)
    for _, root, attempt, message in sorted(buffer, key=lambda event: event[2] == 1):  # later attempts first
        simulation.oracle.hear(root, attempt, message)
