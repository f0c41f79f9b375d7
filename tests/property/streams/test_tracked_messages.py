"""Windowed statistics whose messages are tracked: all are complete in the end, and what was lost is reported."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.step import Input, Output, State, Step
from springline.spark_jobs.streaming.sources.schema import Field, Stream
from springline.spark_jobs.streaming.tracking.config import Delivery, TrackingConfig
from springline.spark_jobs.streaming.windows.job import WindowsJob
from tests.support.examples import examples
from tests.support.streams.tracked_simulation import TrackedSimulation, Wrap

STREAM = Stream("w", (Field("t", "float"), Field("k", "text")), "t", lateness=1.0, max_future_skew=None)
QUERIES = {"q": "SELECT k, count(*) AS n FROM w GROUP BY k WINDOWING 5 s"}
EVENTS = st.lists(st.tuples(st.sampled_from(["die", "die", "add", "remove"]), st.integers(0, 60)), max_size=4)
BEGIN = 1_600_000_000.5  # seconds since 1970
PLAIN: Wrap = lambda stage, step: step  # noqa: E731


def new_simulation(folder: Path, wrap: Wrap = PLAIN) -> TrackedSimulation:
    """A job of two mappers and two reducers."""
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
@given(st.integers(0, 2**32), EVENTS)
def test_all_messages_are_through_whatever_dies(seed: int, events: list[tuple[str, int]]) -> None:
    """None is reported as lost, ackers come and go, and the marks are at the end of the topic."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        topology = new_simulation(Path(folder))
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
        topology = new_simulation(Path(folder), losing(3))
        topology.feed(*texts)
        topology.finish()
        dead = topology.dead()
        dead_letters = [message for unit in topology.log.topics["w.dead-letters"] for message in unit]
        lost = Counter(bytes(message.value).decode() for message in dead_letters)
        assert 0 < len(dead) < 20
        assert set(lost) <= set(texts) and all("sent once, not completed" in reason for *_, reason in dead)
