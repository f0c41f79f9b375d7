"""A tracked word count on the real Kafka and Spark: each word is counted once, and each line is known to be through."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from tests.support.streams.word_job import WordJob

VOCABULARY = [f"w{number}" for number in range(500)]


def lines(messages: int, size: int) -> list[str]:
    """Messages of so many lines of a few words."""
    drawn = random.Random(messages)
    return [
        "\n".join(" ".join(drawn.choices(VOCABULARY, k=drawn.randint(0, 6))) for _ in range(size))
        for _ in range(messages)
    ]


def test_a_topology_may_cross_two_applications(make_words: Callable[..., WordJob]) -> None:
    """Each has a Spark of its own; where the first one dies, so does the other, and both go on without a loss."""
    texts = lines(1_000, 20)
    job = make_words(tracking="timeout = 20.0", table="second_application = true")
    job.feed(texts)
    job.start()
    job.await_rounds(3)
    assert len(job.processes("jvm")) == 2
    job.kill("driver")
    job.await_completion()
    job.await_counts(Counter(" ".join(texts).split()))
    assert not job.failures()
