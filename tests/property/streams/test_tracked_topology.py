"""A tracked word count in which tuples and acks are lost, doubled and delayed, and processes die: nothing is lost.

Windowed statistics whose messages are tracked: all are complete in the end, and what was lost is reported.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.step import Input, Output, State, Step
from springline.spark_jobs.streaming.sources.schema import Field, Stream
from springline.spark_jobs.streaming.tracking.config import Delivery, TrackingConfig
from springline.spark_jobs.streaming.tracking.wire import AckMessage, MessageKind
from springline.spark_jobs.streaming.windows.job import WindowsJob
from springline.spark_jobs.streaming.wordcount.job import WordCountJob
from tests.property.streams.test_foreign_topology import harm
from tests.support.examples import examples
from tests.support.streams.leaky_stages import Leaks, Leaky, roots_of_names
from tests.support.streams.tracked_simulation import TrackedSimulation, Wrap

VOCABULARY = ["a", "b", "spark", "log", "acker", "the", "the"]
EVENTS = st.lists(
    st.tuples(st.sampled_from(["die", "die", "lose states", "add", "remove"]), st.integers(0, 80)), max_size=5
)
RING_EVENTS = st.lists(st.tuples(st.sampled_from(["die", "die", "add", "remove"]), st.integers(0, 60)), max_size=4)
STREAM = Stream("w", (Field("t", "timestamp(s)"), Field("k", "text")), "t", lateness=1.0, max_future_skew=None)
QUERIES = {"q": "SELECT k, count(*) AS n FROM w GROUP BY k WINDOWING 5 s"}
BEGIN = 1_600_000_000.5  # seconds since 1970
PLAIN: Wrap = lambda stage, step: step  # noqa: E731


def lines(seed: int, messages: int) -> list[str]:
    """Messages of a few lines of words; some lines are empty."""
    drawn = random.Random(seed)
    return [
        "\n".join(" ".join(drawn.choices(VOCABULARY, k=drawn.randint(0, 5))) for _ in range(drawn.randint(1, 6)))
        for _ in range(messages)
    ]


def new_simulation(folder: Path, delivery: Delivery, leaks: Leaks | Callable[[Step], Step]) -> TrackedSimulation:
    """A word count with leaks in its second stage, or another harm to it."""
    tracking = TrackingConfig("w", 2, 4, timeout=6.0, max_attempts=40, delivery=delivery)
    job = WordCountJob("w", "lines", tracking, max_messages_per_round=3)

    def wrap(stage: Stage, step: Step) -> Step:
        if stage.name != "count":
            return step
        return Leaky(step, leaks) if isinstance(leaks, Leaks) else leaks(step)

    return TrackedSimulation(job, folder, partitions=5, wrap=wrap)


def losing_fold_acks(step: Step) -> Step:
    """A step whose acks of folds are lost, each of them."""

    def lossy(state: State, step_input: Input) -> Output:
        output = step(state, step_input)
        acks = {
            acker: [batch for batch in batches if "fold" not in batch.schema.names]
            for acker, batches in output.acks.items()
        }
        return replace(output, acks=acks)

    return lossy


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), EVENTS, st.sampled_from([0.0, 0.05, 0.2]))
def test_each_word_is_counted_once_whatever_is_lost_doubled_or_late(
    seed: int, events: list[tuple[str, int]], chance: float
) -> None:
    """Under exactly-once, with processes that die at any call, states that are lost, ackers that come and go."""
    leaks = Leaks(lost=chance, doubled=chance, delayed=chance, seed=seed, last=40.0)
    texts = lines(seed, 12)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        topology = new_simulation(Path(folder), Delivery.EXACTLY_ONCE, leaks)
        topology.feed(*texts)
        for what, number in events:
            harm(topology, what, number)
        topology.finish()
        assert topology.counts() == Counter(" ".join(texts).split())
        assert not topology.dead()


def test_what_was_lost_is_sent_again_and_nothing_else() -> None:
    """A fold is audited as soon as anything is amiss in it; of its lines those are retried that were harmed."""
    texts = lines(3, 60)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        noted = Path(folder) / "noted"
        noted.mkdir()
        leaks = Leaks(lost=0.03, doubled=0.03, delayed=0.03, seed=4, noted=str(noted))
        topology = new_simulation(Path(folder) / "world", Delivery.EXACTLY_ONCE, leaks)
        topology.feed(*texts)
        topology.finish()
        assert topology.counts() == Counter(" ".join(texts).split())
        sources = {
            (partition, message.offset): bytes(message.value)
            for partition, messages in enumerate(topology.log.topics["lines"])
            for message in messages
        }
        harmed = {
            what: roots_of_names(np.concatenate([np.load(file) for file in noted.glob(f"*.{what}.npy")]), sources, 2)
            for what in ("lost", "late", "doubled")
        }
        retried = {
            root
            for messages in topology.log.topics["w.feedback"]
            for ack in (AckMessage.read(message.value) for message in messages if message.value)
            if ack.kind is MessageKind.REPLAY_REQUESTS
            for root in ack.column("root").tolist()
        }
        assert 0 < topology.total("audit_requests") == topology.total("audited")
        assert len(harmed["lost"]) > 5
        assert harmed["lost"] <= retried <= set().union(*harmed.values())


@pytest.mark.parametrize("delivery", Delivery)
@pytest.mark.parametrize(("leaks", "audits"), [(Leaks(), 0), (losing_fold_acks, 20)], ids=["no faults", "lost acks"])
def test_without_losses_no_root_is_ever_sent_again(
    delivery: Delivery, leaks: Leaks | Callable[[Step], Step], audits: int
) -> None:
    """And the counts are right; a lost ack of a fold costs an audit and no retry."""
    texts = lines(2, 20)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        topology = new_simulation(Path(folder), delivery, leaks)
        topology.feed(*texts)
        topology.finish()
        assert topology.total("audit_requests") > audits or not audits
        assert topology.total("replay_requests") == topology.total("failed") == 0
        assert topology.counts() == Counter(" ".join(texts).split())


def test_at_most_once_names_what_was_lost_and_sends_nothing_again() -> None:
    """Each lost line is among the dead letters, by partition, offset and row, with its content; nothing else is."""
    texts = [f"w{number}" for number in range(200)]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        topology = new_simulation(Path(folder), Delivery.AT_MOST_ONCE, Leaks(lost=0.2, seed=5))
        topology.feed(*texts)
        topology.finish()
        dead = [topology.log.topics["lines"][partition] for partition, _, _ in topology.dead()]
        assert topology.total("replay_requests") == 0
        assert 10 < len(topology.dead()) == topology.total("failed") < 120
        lost = {
            bytes(message.value).decode()
            for (partition, offset, _), messages in zip(topology.dead(), dead, strict=True)
            for message in messages
            if message.offset == offset
        }
        missing = {text for text in texts if not topology.counts()[text]}
        assert missing <= lost  # of the others the ack was lost, and the word counted


def test_at_least_once_counts_what_is_sent_again_twice_at_times_and_loses_nothing() -> None:
    """That is what the delivery promises."""
    texts = [f"w{number}" for number in range(200)]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        topology = new_simulation(Path(folder), Delivery.AT_LEAST_ONCE, Leaks(lost=0.2, seed=6))
        topology.feed(*texts)
        topology.finish()
        counts = topology.counts()
        assert set(counts) == set(texts) and sum(counts.values()) > len(texts)
        assert not topology.dead()


def new_windows(folder: Path, wrap: Wrap = PLAIN) -> TrackedSimulation:
    """Windowed statistics whose messages are tracked, of two mappers and two reducers."""
    tracked = TrackingConfig("w", 2, 3, timeout=5.0, delivery=Delivery.AT_MOST_ONCE)
    return TrackedSimulation(
        WindowsJob("w", "rows", STREAM, QUERIES, max_messages_per_round=2, tracking=tracked), folder, wrap=wrap
    )


def rows(seed: int, messages: int) -> list[str]:
    """Messages of rows in the order of time."""
    drawn = random.Random(seed)
    return ["".join(f"{BEGIN + number},k{drawn.randint(0, 3)}\n" for _ in range(3)) for number in range(messages)]


def losing(number: int) -> Wrap:
    """A reducer that loses what one round of its was sent."""

    def wrap(stage: Stage, step: Step) -> Step:
        def lossy(state: State, step_input: Input) -> Output:
            lost = step_input.unit == 1 and step_input.round.number == number
            return step(state, replace(step_input, messages=(), ended_rounds=()) if lost else step_input)

        return lossy if stage.name == "reduce" else step

    return wrap


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), RING_EVENTS)
def test_all_messages_are_through_whatever_dies(seed: int, events: list[tuple[str, int]]) -> None:
    """None is reported as lost, ackers come and go, and the marks are at the end of the topic."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        topology = new_windows(Path(folder))
        topology.feed(*rows(seed, 20))
        for what, number in events:
            epochs = topology.epochs
            if what == "add" and 2 not in epochs.ring.ackers:
                topology.change_ring(epochs.with_acker(2))
            elif what == "remove" and len(epochs.ring.ackers) > 1:
                topology.change_ring(epochs.without_acker(epochs.ring.ackers[0]))
            topology.crash(number)
        topology.finish()
        assert topology.total("completed") >= 20
        assert not topology.total("failed") and not topology.dead()


def test_the_dead_letters_of_a_reducer_have_their_content() -> None:
    """By partition and offset; nothing else is."""
    texts = rows(7, 20)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        topology = new_windows(Path(folder), losing(3))
        topology.feed(*texts)
        topology.finish()
        dead = topology.dead()
        dead_letters = [message for unit in topology.log.topics["w.dead-letters"] for message in unit]
        lost = Counter(bytes(message.value).decode() for message in dead_letters)
        assert 0 < len(dead) < 20
        assert set(lost) <= set(texts) and all("sent once, not completed" in reason for *_, reason in dead)
