"""A join on the real Kafka and Spark: each pair once, while tuples move, units come and go, and processes die."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import duckdb
import pyarrow as pa

from springline.spark_jobs.streaming.join.rebalance import request_units
from tests.support.joins.join_job import JoinJob, Row, skewed

# States are persisted often, so that what they do not need is deleted, and large runs lie on disk.
OFTEN = {"SPRINGLINE_STREAM_CHECKPOINT_INTERVAL": "2", "SPRINGLINE_STREAM_SPILL_BYTES": "500"}
ON = "l.k = r.k AND l.v < r.v"


def truth(left: Sequence[Row], right: Sequence[Row]) -> Counter[tuple[int, int]]:
    """The pairs of ids by DuckDB."""
    with duckdb.connect() as connection:
        for name, rows in (("l", left), ("r", right)):
            columns = map(list, zip(*rows, strict=True))
            connection.register(name, pa.table(dict(zip(("id", "k", "v"), columns, strict=True))))
        return Counter(connection.sql(f"SELECT l.id, r.id FROM l JOIN r ON {ON}").fetchall())


def test_each_pair_is_emitted_once_while_tuples_move_and_processes_die(make_join: Callable[..., JoinJob]) -> None:
    """As DuckDB finds them, with skewed keys, units that become more and fewer, and a worker and the JVM killed."""
    left, right = skewed(5_000, 1_250, 1.0, 1), skewed(5_000, 1_250, 1.0, 2, first=1_000_000)
    job = make_join(
        on=ON,
        table="parallelism = 2\nmax_units = 4\nrebalance_interval = 0.5\nmax_messages_per_round = 2",
        **OFTEN,
    )
    job.feed({job.left: left, job.right: right}, 20)
    total = len(left) + len(right)
    job.start()
    faults = [
        lambda: request_units(job.folder, 4, 4),
        lambda: job.kill("worker"),
        lambda: request_units(job.folder, 3, 4),
        lambda: job.kill("jvm"),
    ]
    for number, fault in enumerate(faults):
        job.await_(lambda status, at=number: job.rows_through() > total * (at + 1) * 0.15, patience=240)
        fault()
    expected_pairs = truth(left, right)
    job.await_pairs(expected_pairs)
    job.await_(lambda status: job.explained().get("units") == 3, patience=120)
    assert job.pairs() == expected_pairs
    assert job.explained()["epoch"] > 3
    assert any((job.home / "spill").rglob("*.arrow"))
    job.await_(lambda status: job.copies_deleted() > 0, patience=120)
