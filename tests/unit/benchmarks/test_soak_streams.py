"""What a soak expects of its streams, computed from the input, beside what the streams emit."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence

import pytest

from benchmarks.cluster.soaking import streams
from springline.spark_jobs.streaming.job_keys import read_keys
from springline.spark_jobs.streaming.join.job import JoinJobKeys, declare_join
from springline.testing.memory_log import MemoryLog

NEW_YEAR = 1_357_000_000.0  # where a window of ten seconds begins


def flow(at: float, sip: str, type_: str, size: int) -> str:
    """A row of flows, as far as the query reads it."""
    return f"{at},{sip},{type_},d,1,2,{size},0"


@pytest.fixture
def log() -> MemoryLog:
    """Topics of two units each, with rows of each source."""
    topics = ("flows", "lines", "orders", "items", "flows.results", "words.results", "orders.results")
    memory_log = MemoryLog(dict.fromkeys(topics, 2))
    fed: dict[tuple[str, int], Sequence[str]] = {
        ("flows", 0): [flow(NEW_YEAR, "a", "t1", 5), flow(NEW_YEAR + 3, "a", "t1", 7)],
        ("flows", 1): [
            flow(NEW_YEAR + 9.9, "a", "t1", 1), flow(NEW_YEAR + 10, "a", "t2", 1), flow(NEW_YEAR + 90_000, "z", "t", 1),
        ],
        ("lines", 0): ["to be or", "not"], ("lines", 1): ["to be"],
        ("orders", 0): ["7,70,1-URGENT", "8,80,2-HIGH"], ("orders", 1): ["9,90,1-URGENT"],
        ("items", 0): ["7,46,3.5,AIR", "7,45,3.5,AIR"], ("items", 1): ["8,50,1.0,AIR", "7,47,4.25,MAIL"],
    }  # fmt: skip
    for (topic, unit), rows in fed.items():
        memory_log.put(topic, unit, ("\n".join(rows) + "\n").encode())
    return memory_log


def write_results(log: MemoryLog, job: str, *results: dict[str, object]) -> None:
    """Results of a job, one a message."""
    for number, result in enumerate(results):
        log.put(f"{job}.results", number % 2, (json.dumps(result) + "\n").encode())


def window(start: str, type_: str, rows: int, size: int) -> dict[str, object]:
    """A result of the query."""
    return {"query": "sums", "window_start": start, "sip": "a", "type": type_, "rows": rows, "bytes": size}


def pair(order: int, customer: int, quantity: int, price: float) -> dict[str, object]:
    """A result of the join."""
    return {"orderkey": order, "customer": customer, "quantity": quantity, "price": price}


FIRST, SECOND = "2013-01-01T00:26:40+00:00", "2013-01-01T00:26:50+00:00"
PAIRS = [pair(7, 70, 46, 3.5), pair(7, 70, 47, 4.25)]
COUNTS = [("to", 1), ("be", 2), ("or", 1), ("not", 1), ("to", 2)]


def test_nothing_is_wrong_where_all_was_reported_once(log: MemoryLog) -> None:
    """The last row of flows, which closes the windows, is in none that is compared; counts of words go on."""
    write_results(log, "flows", window(FIRST, "t1", 3, 13), window(SECOND, "t2", 1, 1))
    write_results(log, "words", *({"word": word, "count": many} for word, many in COUNTS))
    write_results(log, "orders", *PAIRS)
    assert {job: wrong for job, (_, _, wrong) in streams.compared(log).items()} == {"flows": 0, "words": 0, "orders": 0}


def test_what_is_missing_doubled_or_other_counts(log: MemoryLog) -> None:
    """A wrong sum is one missing and one too much."""
    write_results(log, "flows", window(FIRST, "t1", 3, 12), window(SECOND, "t2", 1, 1))
    write_results(log, "words", *({"word": word, "count": many} for word, many in COUNTS[:-1]))
    write_results(log, "orders", *PAIRS, PAIRS[0])
    assert streams.compared(log) == {"flows": (2, 2, 2), "words": (6, 5, 1), "orders": (2, 3, 1)}


def test_the_join_that_is_declared_emits_the_columns_that_are_compared() -> None:
    """By the names that results have."""
    table = tomllib.loads(streams.DECLARED)["orders"]
    join = declare_join("orders", read_keys(JoinJobKeys, table, "streams.toml"))
    assert join.condition.schema.names == list(PAIRS[0])
