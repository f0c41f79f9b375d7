"""The recent lag and throughput of a job: what is kept, for how long, and what rates are made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from springline.spark_jobs.streaming.application.lag_history import (
    INTERVAL_SECONDS,
    SLOTS,
    HistoryWriter,
    LagSample,
    points_of,
    read_history,
    write_sample,
)

BEGAN = 1_700_000_000.0


def sample(at: float, lag: float = 5, rows: float | None = None) -> LagSample:
    """A sample at so many seconds."""
    return LagSample(BEGAN + at, lag, 0.5, rows, 1e6, 0)


def test_the_samples_of_an_hour_are_kept_in_a_file_of_fixed_size(tmp_path: Path) -> None:
    """However long the job runs; the oldest are overwritten, and a job that has not run has none."""
    file = tmp_path / "ring"
    assert read_history(file, BEGAN) == []
    for number in range(2 * SLOTS):
        write_sample(file, sample(number * INTERVAL_SECONDS, lag=number))
    assert file.stat().st_size == SLOTS * 48
    points = read_history(file, BEGAN + (2 * SLOTS - 1) * INTERVAL_SECONDS)
    assert [point.lag for point in points] == list(range(SLOTS, 2 * SLOTS))


def test_what_is_older_than_an_hour_is_left_out(tmp_path: Path) -> None:
    """A job that was stopped for a day leaves slots of yesterday."""
    file = tmp_path / "ring"
    write_sample(file, sample(0))
    write_sample(file, sample(86_400 + 50))
    assert [point.sampled_at for point in read_history(file, BEGAN + 86_400 + 60)] == [BEGAN + 86_450]


def test_rows_a_second_are_between_two_samples_that_follow_each_other() -> None:
    """Not across a gap, and not across a rewind, after which the rows count again."""
    rows = [(0, 100), (10, 600), (20, 600), (30, 50), (200, 9_000), (210, None)]
    points = points_of(sample(at, rows=of) for at, of in rows)
    assert [point.rows_per_second for point in points] == [None, 50.0, 0.0, None, None, None]


def test_a_sample_is_read_from_a_heartbeat() -> None:
    """The greatest lag, the longest queue, the rows and bytes of the first stage, all dead letters."""
    heartbeat = {
        "heartbeat_at": BEGAN,
        "stages": {
            "map": {"lag": 40, "counts": {"rows": 7, "dead_letters": 2}},
            "reduce": {"lag": 3, "counts": {"dead_letters": 1}},
        },
        "backpressure": {"stages": {"map": {"seconds": 2.0, "applied": 9.0}, "reduce": {"seconds": None}}},
    }
    assert LagSample.of(heartbeat) == LagSample(BEGAN, 40, 2.0, 7, 9.0, 3)
    assert LagSample.of({"heartbeat_at": BEGAN, "stages": {}}) == LagSample(BEGAN, None, None, None, None, 0)


@pytest.mark.parametrize(("beats", "written"), [((0, 0.5, 9), 1), ((0, 9, 10.2), 2)])
def test_one_heartbeat_in_ten_seconds_is_written(tmp_path: Path, beats: tuple[float, ...], written: int) -> None:
    """The first of each interval."""
    writer = HistoryWriter(tmp_path)
    for at in beats:
        writer.offer({"heartbeat_at": BEGAN + at, "stages": {}})
    assert len(read_history(tmp_path / "history.ring", BEGAN + 20)) == written
