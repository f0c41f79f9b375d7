"""Many roots through stages that lose, double and delay tuples and acks, while processes are killed."""

from __future__ import annotations

import json
import math
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.step import Message
from springline.spark_jobs.streaming.tracking.root_id import unpack_root_id
from springline.spark_jobs.streaming.tracking.wire import AckMessage, MessageKind
from tests.support.servers.servers import Running
from tests.support.streams.leaky_stages import roots_of_names
from tests.support.streams.word_job import WordJob

pytestmark = pytest.mark.nightly("roots wait for timeouts while processes are killed")

LINES = 100_000
IN_A_MESSAGE = 500
UNITS = 2  # that count
VOCABULARY = [f"w{number}" for number in range(1_000)]
CHANCE = 0.003  # of each of what can happen to a tuple or an ack


def lines(many: int) -> tuple[list[str], Counter[str]]:
    """So many lines of one or two words, in messages, and how often each word comes."""
    drawn = np.random.default_rng(20130101)
    messages, counts = [], Counter[str]()
    for _ in range(many // IN_A_MESSAGE):
        numbers = drawn.integers(0, len(VOCABULARY), (2, IN_A_MESSAGE))
        two = drawn.random(IN_A_MESSAGE) < 0.2
        messages.append(
            "\n".join(
                f"{VOCABULARY[first]} {VOCABULARY[second]}" if both else VOCABULARY[first]
                for first, second, both in zip(*numbers, two, strict=True)
            )
        )
        for word, times in zip(
            *np.unique(np.concatenate([numbers[0], numbers[1][two]]), return_counts=True), strict=True
        ):
            counts[VOCABULARY[word]] += int(times)
    return messages, counts


def test_each_lost_root_is_named_none_falsely_and_every_word_is_counted_once(
    make_words: Callable[..., WordJob], kafka: Running, tmp_path: Path
) -> None:
    """Workers, driver and broker are killed, states deleted, ackers added and removed meanwhile."""
    messages, counts = lines(LINES)
    job = make_words(
        tracking='timeout = 8.0\nackers = 2\nmax_ackers = 3\nmax_attempts = 20\ndelivery = "exactly-once"',
        admitted=4, **leaky(tmp_path, lost=CHANCE, doubled=CHANCE, delayed=CHANCE),
    )  # fmt: skip
    job.feed(messages)
    job.start()
    faults = [
        lambda: job.kill("worker"),
        lambda: job.run("acker add", "2"),
        lambda: job.kill("jvm"),
        lambda: kafka.restart("broker"),
        lambda: job.run("acker remove", "0"),
        lambda: job.kill("driver"),
        job.lose_states,
    ]
    for fault in random.Random(7).sample(faults, len(faults)):
        job.await_rounds(3)
        fault()
    job.await_completion(patience=400)
    assert "all completed" in job.run("wait")
    assert "no failed records" in job.run("dead-letters")
    job.await_counts(counts)
    job.stop()
    assert not job.failures()
    retried_roots = {root for root, _, _ in retry_requests(job)}
    texts = texts_by_position(job)
    lost, late, doubled = (noted_in(tmp_path, what, texts) for what in ("lost", "late", "doubled"))
    assert len(lost) > LINES * CHANCE
    assert lost <= retried_roots, "lost, and not named"
    assert retried_roots <= lost | late | doubled, "named without reason"


def test_a_lost_root_is_named_within_one_and_a_half_time_outs(
    make_words: Callable[..., WordJob], tmp_path: Path
) -> None:
    """From its registration until an acker requested its retry."""
    timeout = 8.0  # half of it is what the rounds between may take
    job = make_words(tracking=f"timeout = {timeout}\nmax_attempts = 20", admitted=4, **leaky(tmp_path, lost=0.01))
    messages, counts = lines(LINES)
    job.start()
    longest: list[float] = []
    while len(longest) < 3 and min(longest, default=math.inf) > timeout * 1.5:  # a busy machine takes longer at times
        fed_at = time.time()
        job.feed(messages)
        job.await_completion()
        job.await_counts(Counter({word: times * (len(longest) + 1) for word, times in counts.items()}))
        registration_times = registered(job, fed_at)
        waited = [
            at - registration_times[message]
            for root, attempt, at in retry_requests(job)
            if attempt == 2 and (message := message_of(root)) in registration_times
        ]
        assert len(waited) > 500
        assert timeout * 0.9 < min(waited)
        longest.append(max(waited))
    job.stop()
    assert min(longest) <= timeout * 1.5, longest


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
    with closing(Kafka(Cluster(job.kafka.address))) as log:
        return {
            (unit, message.offset): bytes(message.value)
            for unit, extent in log.offset_bounds(job.name).items()
            for message in log.fetch(job.name, unit, extent.low, extent.high)
        }


def retry_requests(job: WordJob) -> Iterator[tuple[int, int, float]]:
    """The roots whose retry ackers requested, the next attempt, and when."""
    for message in messages_of(job, "feedback"):
        ack_message = AckMessage.read(message.value)
        if ack_message.kind is MessageKind.REPLAY_REQUESTS:
            for root, attempt in zip(
                ack_message.column("root").tolist(), ack_message.column("attempt").tolist(), strict=True
            ):
                yield root, attempt, message.timestamp


def registered(job: WordJob, since: float) -> dict[tuple[int, int], float]:
    """When the roots of each message of the source were registered for the first time since then: with their fold."""
    times_by_message: dict[tuple[int, int], float] = {}
    for message in messages_of(job, "acks"):
        if message.timestamp < since or not message.value:
            continue
        if (ack_message := AckMessage.read(message.value)).kind is MessageKind.FOLDS:
            for fold in ack_message.folds():
                for offset in fold.ranges.each_message()[0].tolist():
                    times_by_message.setdefault((fold.partition, offset), message.timestamp)
    return times_by_message


def message_of(root: int) -> tuple[int, int]:
    """The partition and the offset of the message that a root was in."""
    name = unpack_root_id(root)
    return name.partition, name.offset


def messages_of(job: WordJob, topic: str) -> Iterator[Message]:
    """All messages of a topic of the job's own."""
    with closing(Kafka(Cluster(job.kafka.address))) as log:
        for unit, extent in log.offset_bounds(f"{job.name}.{topic}").items():
            yield from log.fetch(f"{job.name}.{topic}", unit, extent.low, extent.high)
