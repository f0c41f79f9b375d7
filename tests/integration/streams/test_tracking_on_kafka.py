"""A tracked word count on the real Kafka and Spark: each word is counted once, and each line is known to be through."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from tests.support.servers import Running
from tests.support.word_job import WordJob

WORDS = [f"w{number}" for number in range(500)]


def lines(messages: int, size: int) -> list[str]:
    """Messages of so many lines of a few words."""
    drawn = random.Random(messages)
    return [
        "\n".join(" ".join(drawn.choices(WORDS, k=drawn.randint(0, 6))) for _ in range(size)) for _ in range(messages)
    ]


def test_every_word_is_counted_once_while_ackers_come_and_go_and_processes_die(
    make_words: Callable[..., WordJob], kafka: Running
) -> None:
    """Exactly once; the commands tell that all is through, and that nothing was given up."""
    texts = lines(6_000, 20)
    job = make_words(tracking="timeout = 8.0\nackers = 2\nroom = 4")
    job.feed(texts)
    job.start()
    faults = [
        lambda: job.kill("worker"),
        lambda: job.run("tracking add", "2"),
        lambda: job.kill("jvm"),
        lambda: job.run("tracking remove", "0"),
        lambda: kafka.restart("broker"),
        job.lose_states,
    ]
    for fault in faults:
        begun = job.look().stages.get("split", {}).get("round", 0)
        job.await_(lambda seen, at=begun + 5: seen.stages.get("split", {}).get("round", 0) >= at, patience=240)
        fault()
    job.await_through()
    assert "all through" in job.run("tracking through")
    assert "no record was given up" in job.run("tracking failed")
    job.await_counts(Counter(" ".join(texts).split()))
    assert not job.failures()


def test_a_topology_may_cross_two_applications(make_words: Callable[..., WordJob]) -> None:
    """Each has a Spark of its own; where the process of either dies, both are started again and nothing is lost."""
    texts = lines(1_000, 20)
    job = make_words(tracking="timeout = 8.0", table="apart = true")
    job.feed(texts)
    job.start()
    for kind in ("jvm", "driver"):
        job.await_rounds(3)
        assert len(job.processes("jvm")) == 2
        job.kill(kind)
    job.await_through()
    job.await_counts(Counter(" ".join(texts).split()))
    assert not job.failures()
