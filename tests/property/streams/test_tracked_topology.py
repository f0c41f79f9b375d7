"""A tracked word count in which tuples and acks are lost, doubled and delayed, and processes die: nothing is lost."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.step import Step
from springline.spark_jobs.streaming.tracking.config import Delivery, TrackingConfig
from springline.spark_jobs.streaming.tracking.errors import InvalidRingError
from springline.spark_jobs.streaming.wordcount.job import WordCountJob
from tests.support.streams.leaky_stages import Leaks, Leaky
from tests.support.streams.tracked_world import TrackedWorld

VOCABULARY = ["a", "b", "spark", "log", "acker", "the", "the"]
EVENTS = st.lists(
    st.tuples(st.sampled_from(["die", "die", "lose states", "add", "remove"]), st.integers(0, 80)), max_size=5
)


def lines(seed: int, messages: int) -> list[str]:
    """Messages of a few lines of words; some lines are empty."""
    drawn = random.Random(seed)
    return [
        "\n".join(" ".join(drawn.choices(VOCABULARY, k=drawn.randint(0, 5))) for _ in range(drawn.randint(1, 6)))
        for _ in range(messages)
    ]


def world(folder: Path, delivery: Delivery, leaks: Leaks) -> TrackedWorld:
    """A word count with leaks in its second stage."""
    job = WordCountJob(
        "w",
        "lines",
        TrackingConfig("w", 2, 4, timeout=6.0, max_attempts=40, delivery=delivery),
        max_messages_per_round=3,
    )

    def wrap(stage: Stage, step: Step) -> Step:
        return Leaky(step, leaks) if stage.name == "count" else step

    return TrackedWorld(job, folder, wrap=wrap)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), EVENTS, st.sampled_from([0.0, 0.05, 0.2]))
def test_each_word_is_counted_once_whatever_is_lost_doubled_or_late(
    seed: int, events: list[tuple[str, int]], chance: float
) -> None:
    """Under exactly-once, with processes that die at any call, states that are lost, ackers that come and go."""
    leaks = Leaks(lost=chance, doubled=chance, delayed=chance, seed=seed, last=60)
    texts = lines(seed, 12)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        topology = world(Path(folder), Delivery.EXACTLY_ONCE, leaks)
        topology.feed(*texts)
        for what, number in events:
            if what in ("add", "remove"):
                epochs = topology.epochs
                try:
                    changed = epochs.with_acker(number % 4) if what == "add" else epochs.without_acker(number % 4)
                    topology.change_ring(changed)
                except InvalidRingError:
                    pass
            topology.crash(number, lose_states=what == "lose states")
        topology.finish()
        assert topology.counts() == Counter(" ".join(texts).split())
        assert not topology.dead()


def test_without_faults_no_root_is_ever_sent_again() -> None:
    """And under each delivery the counts are right."""
    for delivery in Delivery:
        texts = lines(1, 20)
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            topology = world(Path(folder), delivery, Leaks())
            topology.feed(*texts)
            topology.finish()
            assert topology.total("replay_requests") == topology.total("failed") == 0
            assert topology.counts() == Counter(" ".join(texts).split())


def test_at_most_once_names_what_was_lost_and_sends_nothing_again() -> None:
    """Each lost line is among the dead letters, by partition, offset and row, with its content; nothing else is."""
    texts = [f"w{number}" for number in range(200)]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        topology = world(Path(folder), Delivery.AT_MOST_ONCE, Leaks(lost=0.2, seed=5))
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
        topology = world(Path(folder), Delivery.AT_LEAST_ONCE, Leaks(lost=0.2, seed=6))
        topology.feed(*texts)
        topology.finish()
        counts = topology.counts()
        assert set(counts) == set(texts) and sum(counts.values()) > len(texts)
        assert not topology.dead()
