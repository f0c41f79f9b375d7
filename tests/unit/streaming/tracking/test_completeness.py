"""Which records of a range were lost, and from when on that can be answered."""

from __future__ import annotations

from pathlib import Path

from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.step import Step
from springline.spark_jobs.streaming.tracking.completeness import completeness_of
from springline.spark_jobs.streaming.tracking.config import TrackingConfig
from springline.spark_jobs.streaming.tracking.replay.failures import failures_within
from springline.spark_jobs.streaming.wordcount.job import WordCountJob
from springline.testing.memory_log import MemoryLog
from tests.support.streams.leaky_stages import Leaks, Leaky
from tests.support.streams.tracked_simulation import TrackedSimulation


def test_below_the_marks_all_that_was_abandoned_is_among_the_dead_letters(tmp_path: Path) -> None:
    """At each moment of a job that loses tuples, sends them again and abandons many; in the end all are reported."""
    job = WordCountJob("w", "lines", TrackingConfig("w", timeout=6.0, max_attempts=2), max_messages_per_round=3)

    def wrap(stage: Stage, step: Step) -> Step:
        return Leaky(step, Leaks(lost=0.4, seed=3)) if stage.name == "count" else step

    simulation = TrackedSimulation(job, tmp_path, wrap=wrap)
    texts = [f"w{number}" for number in range(60)]
    simulation.feed(*texts[:30])
    ends = [{0: 9, 1: 9}, {0: 0, 1: 20}, {0: 45, 1: 45}]
    failure_counts: list[list[int]] = [[] for _ in ends]
    for _ in range(1_200):
        simulation.turn()
        for end, counts in zip(ends, failure_counts, strict=True):
            if completeness_of(simulation.folder, end).is_complete:
                counts.append(len(list(failures_within(simulation.log, job.dead_letters, "lines", {}, end))))
        if failure_counts[0] and texts:
            simulation.feed(*texts[30:])
            texts.clear()
        if failure_counts[-1]:
            break
    expected_counts = [len(list(failures_within(simulation.log, job.dead_letters, "lines", {}, end))) for end in ends]
    assert [set(counts) for counts in failure_counts] == [{count} for count in expected_counts]
    assert len(failure_counts[0]) > 1 and min(expected_counts) > 0
    assert simulation.total("replay_requests") and expected_counts[-1] == simulation.total("failed")


def test_losses_of_a_range_are_found_however_far_back_they_are() -> None:
    """From its first offset up to its last one, in the partitions that it has; letters of other topics do not count."""
    log = MemoryLog({"dead": 1})
    places = [(0, 4), (0, 5), (1, 5), *((7, number) for number in range(5_000)), (0, 9), (0, 10)]
    for topic in (b"lines", b"other"):
        for partition, offset in places:
            headers = {"topic": topic, "partition": b"%d" % partition, "offset": b"%d" % offset, "reason": b"late"}
            log._append(OutgoingRecord("dead", 0, b"", headers))
    log._append(OutgoingRecord("dead", 0, b"", {**headers, "partition": b"first"}))
    failures = failures_within(log, "dead", "lines", {0: 5}, {0: 10, 1: 6})
    assert [(each.partition, each.offset) for each in failures] == [(0, 5), (1, 5), (0, 9)]
