"""Five million roots through stages that lose, double and delay tuples and acks, while processes are killed."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np

from spark_jobs.streaming.kafka import Cluster, Kafka
from spark_jobs.streaming.tracking.forms import Kind, Told
from tests.support.servers import Running
from tests.support.word_job import WordJob

LINES = 5_000_000
IN_A_MESSAGE = 5_000
WORDS = [f"w{number}" for number in range(1_000)]
CHANCE = 0.0005  # of each of what can happen to a tuple or an ack


def lines() -> tuple[list[str], Counter[str]]:
    """Messages of lines of one or two words, and how often each word comes."""
    drawn = np.random.default_rng(20130101)
    messages, counts = [], Counter[str]()
    for _ in range(LINES // IN_A_MESSAGE):
        numbers = drawn.integers(0, len(WORDS), (2, IN_A_MESSAGE))
        two = drawn.random(IN_A_MESSAGE) < 0.2
        messages.append(
            "\n".join(
                f"{WORDS[first]} {WORDS[second]}" if both else WORDS[first]
                for first, second, both in zip(*numbers, two, strict=True)
            )
        )
        for word, times in zip(
            *np.unique(np.concatenate([numbers[0], numbers[1][two]]), return_counts=True), strict=True
        ):
            counts[WORDS[word]] += int(times)
    return messages, counts


def test_each_lost_root_is_named_none_falsely_and_every_word_is_counted_once(
    make_words: Callable[..., WordJob], kafka: Running, tmp_path: Path
) -> None:
    """Workers, driver and broker are killed, states deleted, ackers added and removed meanwhile."""
    noted = tmp_path / "noted"
    noted.mkdir()
    leaks = {"lost": CHANCE, "doubled": CHANCE, "delayed": CHANCE, "seed": 7, "noted": str(noted)}
    support = Path(__file__).parents[2] / "support" / "leaks"
    messages, counts = lines()
    job = make_words(
        tracking='timeout = 20.0\nackers = 2\nroom = 3\ntries = 20\ndelivery = "exactly-once"',
        admitted=4,
        PYTHONPATH=os.pathsep.join([str(support), str(support.parents[2])]),
        SPRINGLINE_TEST_LEAKS=json.dumps(leaks),
        SPRINGLINE_STREAM_SAVE="0",  # so that no log is cut
    )
    job.feed(messages)
    job.start()
    faults = [
        lambda: job.kill("worker"),
        lambda: job.run("tracking add", "2"),
        lambda: job.kill("jvm"),
        lambda: kafka.restart("broker"),
        lambda: job.run("tracking remove", "0"),
        lambda: job.kill("driver"),
        job.lose_checkpoints,
    ]
    for fault in random.Random(7).sample(faults, len(faults)):
        job.await_rounds(10)
        fault()
    job.await_rounds(10)
    job.await_through(patience=400)
    job.await_counts(counts)
    job.stop()
    assert not job.failures()
    again = named_again(job)
    lost, late, doubled = (noted_in(noted, what) for what in ("lost", "late", "doubled"))
    assert len(lost) > LINES * CHANCE
    assert lost <= again, "lost, and not named"
    assert again <= lost | late | doubled, "named without reason"


def noted_in(folder: Path, what: str) -> set[int]:
    """The roots that were harmed so."""
    return {root for file in folder.glob(f"*.{what}.npy") for root in np.load(file).tolist()}


def named_again(job: WordJob) -> set[int]:
    """The roots that ackers told to be sent again."""
    found: set[int] = set()
    with closing(Kafka(Cluster(job.kafka.address))) as log:
        for unit, extent in log.extents(f"{job.name}.told").items():
            for message in log.fetch(f"{job.name}.told", unit, extent.low, extent.high):
                told = Told.read(message.value)
                if told.kind is Kind.AGAIN:
                    found.update(told.column("root").tolist())
    return found
