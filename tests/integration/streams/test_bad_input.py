"""Input that cannot be used: it goes to the dead letters with the reason, is counted, and the stream goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from springline.spark_jobs.streaming.examples.netflow import Flows
from tests.support.servers.servers import Running
from tests.support.streams.stream_job import StreamJob, expected

FLOWS = Flows(20_000, seed=7, sips=50, types=5, rate=10_000)
OUTSIDE = "row 1: timestamp is outside 2000-01-01T00:00:00 to 2100-01-01T00:00:00"
SOME = next(FLOWS.messages("csv", size=1)).decode().rstrip("\n")


@pytest.fixture
def job(kafka: Running, tmp_path: Path) -> Iterator[StreamJob]:
    """A job whose topic is not there yet."""
    job = StreamJob(kafka, tmp_path / "home", admitted=3)
    yield job
    job.close()


def test_what_cannot_be_used_is_a_dead_letter_and_the_stream_goes_on(job: StreamJob) -> None:
    """Bytes that are no CSV, a row cut short, times of 1970 and 9999, another schema: each with its reason.

    A topic that is missing stops the job. A partition that is added is read within the same application.
    """
    time, *rest = SOME.split(",")
    bad = [
        (b"\xff\xfe\x00\x01" * 20, "row 1: not UTF-8, at byte 0"),
        (",".join([time, *rest[:2]]).encode(), "row 1: 3 fields instead of 25"),
        (",".join(["12.5", *rest]).encode(), OUTSIDE),
        (",".join(["253370764800", *rest]).encode(), OUTSIDE),
        (",".join([*["surely"] * 4, time, *rest]).encode(), "row 1: 29 fields instead of 25"),
    ]
    job.start()
    status = job.await_(lambda status: status.state == "failed", patience=120, restart=False)
    assert f"{job.name} does not exist at {job.kafka.address}" in status.error
    job.feed(FLOWS, size=1_000)
    for value, _ in bad:
        job.put(value + b"\n")
    job.start()
    job.await_rows(FLOWS.rows)
    status = job.await_(lambda status: status.state == "running", patience=30)
    assert status.stages["map"]["counts"]["dead_letters"] == len(bad)
    assert job.results() == expected(FLOWS)
    later = [str(float(SOME.split(",")[0]) + seconds) for seconds in (60, 120)]
    job.add_partition()
    for time in later:
        job.put(",".join([time, *rest]).encode() + b"\n", unit=2)
    job.await_rows(FLOWS.rows + 1)
    job.stop()
    assert job.dead_letters() == Counter(reason for _, reason in bad)
    added = job.results() - expected(FLOWS)
    # The later window closes by the clock, where the stream was idle for long enough before it was stopped.
    assert 1 <= added.total() <= len(later) and not expected(FLOWS) - job.results()
