"""Many roots through stages that lose, double and delay tuples and acks, while processes are killed."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from springline.spark_jobs.streaming.tracking.wire import AckMessage, MessageKind
from tests.support.servers.servers import Running
from tests.support.streams.leaky_stages import roots_of_names
from tests.support.streams.word_job import WordJob

pytestmark = pytest.mark.nightly("roots wait for timeouts while processes are killed")

LINES = 20_000
IN_A_MESSAGE = 100
UNITS = 2  # that count
VOCABULARY = [f"w{number}" for number in range(1_000)]
CHANCE = 0.005  # of each of what can happen to a tuple or an ack


def lines() -> list[str]:
    """Messages of lines of one or two words."""
    drawn = random.Random(20130101)
    return [
        "\n".join(" ".join(drawn.choices(VOCABULARY, k=1 + (drawn.random() < 0.2))) for _ in range(IN_A_MESSAGE))
        for _ in range(LINES // IN_A_MESSAGE)
    ]


def test_each_lost_root_is_named_none_falsely_and_every_word_is_counted_once(
    make_words: Callable[..., WordJob], kafka: Running, tmp_path: Path
) -> None:
    """Worker, JVM, driver and broker are killed, states deleted, ackers added and removed meanwhile.

    What ends the application happens together with what does not, so that it is started twice and not four times.
    """
    messages = lines()
    job = make_words(
        tracking='timeout = 8.0\nackers = 2\nmax_ackers = 3\nmax_attempts = 20\ndelivery = "exactly-once"',
        admitted=4, **leaky(tmp_path, lost=CHANCE, doubled=CHANCE, delayed=CHANCE),
    )  # fmt: skip
    half = len(messages) // 2
    job.feed(messages[:half])
    job.start()
    faults: list[tuple[Callable[[], object], ...]] = [
        (lambda: job.kill("worker"), lambda: job.run("acker add", "2")),
        (job.lose_states, lambda: job.kill("jvm")),
        (lambda: kafka.restart("broker"),),
        (lambda: job.run("acker remove", "0"), lambda: job.kill("driver")),
    ]
    for together in random.Random(7).sample(faults, len(faults)):
        job.await_rounds(3)
        for fault in together:
            fault()
    job.feed(messages[half:])  # which an application works on that has outlived the last fault
    job.await_completion(patience=400)
    assert "all completed" in job.run("wait")
    assert "no failed records" in job.run("dead-letters")
    job.await_counts(Counter(word for message in messages for word in message.split()))
    job.stop()
    assert not job.failures()
    retried_roots = set(retry_requests(job))
    texts = texts_by_position(job)
    lost, late, doubled = (noted_in(tmp_path, what, texts) for what in ("lost", "late", "doubled"))
    assert len(lost) > LINES * CHANCE / 2
    assert lost <= retried_roots, "lost, and not named"
    assert retried_roots <= lost | late | doubled, "named without reason"


def leaky(noted: Path, **leaks: float) -> dict[str, str]:
    """The environment of an application whose stages leak, and note that in a folder; its logs are not cut."""
    support = Path(__file__).parents[2] / "support" / "leaks"
    return {
        "PYTHONPATH": os.pathsep.join([str(support), str(support.parents[2])]),
        "SPRINGLINE_TEST_LEAKS": json.dumps({**leaks, "seed": 7, "noted": str(noted)}),
        "SPRINGLINE_STREAM_CHECKPOINT_INTERVAL": "0",
    }


def noted_in(folder: Path, what: str, texts: Mapping[tuple[int, int], bytes]) -> set[int]:
    """The roots that were harmed so."""
    names = [np.load(file) for file in folder.glob(f"*.{what}.npy")]
    return roots_of_names(np.concatenate(names), texts, UNITS)


def texts_by_position(job: WordJob) -> dict[tuple[int, int], bytes]:
    """The messages of the source, by partition and offset."""
    with job.kafka.log() as log:
        return {
            (unit, message.offset): bytes(message.value)
            for unit, extent in log.offset_bounds(job.name).items()
            for message in log.fetch(job.name, unit, extent.low, extent.high)
        }


def retry_requests(job: WordJob) -> Iterator[int]:
    """The roots whose retry ackers requested."""
    topic = f"{job.name}.feedback"
    with job.kafka.log() as log:
        for unit, extent in log.offset_bounds(topic).items():
            for message in log.fetch(topic, unit, extent.low, extent.high):
                ack_message = AckMessage.read(message.value)
                if ack_message.kind is MessageKind.REPLAY_REQUESTS:
                    yield from ack_message.column("root").tolist()
