"""A topology that is not ours and loses tuples, acks and clients, tracked by a job that dies: no outcome is wrong."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.tracker.client import Tracker
from springline.spark_jobs.streaming.tracker.job import TrackerJob
from springline.spark_jobs.streaming.tracking.config import TrackingConfig
from springline.spark_jobs.streaming.tracking.errors import InvalidRingError
from springline.spark_jobs.streaming.tracking.root_id import NO_ROOT
from tests.support.examples import examples
from tests.support.streams.tracked_simulation import TrackedSimulation

STAGES, DEPTH = 2, 4
LOSSY = 2  # attempts in which anything is lost
EVENTS = st.lists(
    st.tuples(st.sampled_from(["die", "die", "lose states", "add", "remove"]), st.integers(0, 60)), max_size=5
)
Name = tuple[int, int]  # a root, and its attempt


@dataclass
class Tree:
    """What is true of an attempt: the edges that are not processed yet, and whether anything of it was lost."""

    open: set[int] = field(default_factory=set)
    lost: bool = False
    is_registered: bool = False  # for the tracker


@dataclass
class Client:
    """A client of the tracker, and what dies with it."""

    tracker: Tracker
    unflushed: list[Name] = field(default_factory=list)

    def flush(self) -> list[Name]:
        """What has arrived now."""
        self.tracker.flush()
        sent, self.unflushed = self.unflushed, []
        return sent


class Topology:
    """A spring and stages, each with a client; a tuple is lost, or its ack, or a client, by `chance`."""

    def __init__(self, simulation: TrackedSimulation, chance: float, seed: int) -> None:
        self.simulation, self.chance, self.drawn = simulation, chance, random.Random(seed)
        self.trees: dict[Name, Tree] = {}
        self.tuples: list[tuple[Name, int, int]] = []  # on an edge, so deep in the tree
        self.spring, self.stages = self.client(), [self.client() for _ in range(STAGES)]
        self.watcher = self.client()
        self.outcomes: dict[Name, str] = {}

    def client(self) -> Client:
        return Client(Tracker("", self.simulation.job.name, log=self.simulation.log))

    def send(self, root: int, attempt: int = 1) -> None:
        """Send a root on some edges, and begin it."""
        name, edges = (root, attempt), self.edges(self.drawn.randint(0, 3))
        self.trees[name] = Tree(set(edges))
        self.spring.tracker.begin(root, edges, attempt)
        self.spring.unflushed.append(name)
        self.tuples += [(name, edge, 1) for edge in edges]

    def edges(self, count: int) -> list[int]:
        return [self.drawn.getrandbits(64) or 1 for _ in range(count)]

    def step(self) -> None:
        """Process some of the tuples; clients flush, or die."""
        waiting, self.tuples = self.tuples, []
        for name, edge, depth in waiting:
            if self.drawn.random() < 0.3:
                self.tuples.append((name, edge, depth))
            elif self.loses(name):
                self.trees[name].lost = True
            else:
                self.process(name, edge, depth)
        for place, client in enumerate(self.stages):
            if client.unflushed and self.loses(*client.unflushed):
                for name in client.unflushed:
                    self.trees[name].lost = True
                self.stages[place] = self.client()
            elif self.drawn.random() < 0.7:
                client.flush()
        unsent = self.spring.unflushed
        if unsent and self.loses(*unsent):
            self.spring = self.client()
            for root, attempt in unsent:  # no client will ever ack or fail it
                self.send(root, attempt + 1)
        for name in self.spring.flush():
            self.trees[name].is_registered = True

    def process(self, name: Name, edge: int, depth: int) -> None:
        root, attempt = name
        tree = self.trees[name]
        emitted = self.edges(self.drawn.randint(0, 2)) if depth < DEPTH else []
        tree.open.remove(edge)
        tree.open.update(emitted)
        self.tuples += [(name, child, depth + 1) for child in emitted]
        if self.loses(name):
            tree.lost = True  # its ack
            return
        client = self.stages[depth % STAGES]
        client.tracker.ack(root, edge, emitted, attempt)
        client.unflushed.append(name)

    def loses(self, *names: Name) -> bool:
        return all(attempt <= LOSSY for _, attempt in names) and self.drawn.random() < self.chance

    def hear(self) -> Iterator[Name]:
        """The tracker's outcomes, compared with the true ones; yields what has failed."""
        for root, attempt, outcome in self.watcher.tracker.outcomes(0.0):
            name = (root, attempt)
            tree = self.trees[name]
            assert tree.is_registered and name not in self.outcomes, (
                f"{name} is told to be {outcome}, and was never open"
            )
            self.outcomes[name] = outcome
            if outcome == "finished":
                assert not tree.open and not tree.lost, f"{name}: a false completion, {tree}"
            else:
                assert tree.lost, f"{name}: failed, and nothing of it was lost, {tree}"
                yield name


def roots(seed: int, count: int) -> list[int]:
    """Any 64-bit ids: random ones, and some that would name partitions, offsets and rows far out."""
    drawn = random.Random(seed)
    root_ids = {drawn.getrandbits(64) for _ in range(count - 5)} - {NO_ROOT}
    return [*sorted(root_ids), 0, 1, NO_ROOT - 1, 1 << 63, 5 << 52]


def run(folder: Path, seed: int, chance: float, events: list[tuple[str, int]]) -> Topology:
    """Until every root is finished: what failed is sent again."""
    simulation = TrackedSimulation(TrackerJob("t", TrackingConfig("t", timeout=8.0, foreign=True)), folder)
    simulation.step_seconds = 0.2
    topology = Topology(simulation, chance, seed)
    left = set(roots(seed, 40))
    for root in sorted(left):
        topology.send(root)
    waiting = list(events)
    for number in range(600):
        topology.step()
        if waiting and number % 4 == 3:
            harm(simulation, *waiting.pop())
        else:
            simulation.turn()
        for root, attempt in topology.hear():
            topology.send(root, attempt + 1)
        left -= {root for (root, _), outcome in topology.outcomes.items() if outcome == "finished"}
        if not left and not waiting:
            break
    assert not left, f"never told: {left}"
    return topology


def harm(simulation: TrackedSimulation, what: str, number: int) -> None:
    """Let an acker come or go, or none, and then let the process die after so many calls, or lose its states."""
    if what in ("add", "remove"):
        epochs = simulation.epochs
        with suppress(InvalidRingError):
            simulation.change_ring(epochs.with_acker(number % 4) if what == "add" else epochs.without_acker(number % 4))
    simulation.crash(number, lose_states=what == "lose states")


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), EVENTS, st.sampled_from([0.0, 0.02, 0.1]))
def test_an_attempt_is_finished_if_and_only_if_all_of_it_was_processed(
    seed: int, events: list[tuple[str, int]], chance: float
) -> None:
    """What is lost is reported as failed, and each outcome once, with whatever dies and ackers that come and go."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        topology = run(Path(folder), seed, chance, events)
        registered_names = {name for name, tree in topology.trees.items() if tree.is_registered}
        assert set(topology.outcomes) == registered_names
        assert not topology.simulation.dead()


def test_marks_are_not_made_of_ids_that_say_nothing_of_offsets() -> None:
    """And nothing waits for them: a root that was lost fails, another attempt of it is finished."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        topology = run(Path(folder), 3, 0.1, [("add", 60), ("remove", 60)])
        assert "failed" in topology.outcomes.values()
        assert all(not gauges["low_watermarks"] for gauges in topology.simulation._gauges)
        assert topology.simulation.total("failed") == list(topology.outcomes.values()).count("failed")
