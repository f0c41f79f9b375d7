"""A job that has run keeps the number of its units: what they hold was placed by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from springline.spark_jobs.streaming.errors import InvalidJobError
from springline.spark_jobs.streaming.job import topics_of_stages
from springline.spark_jobs.streaming.jobs import read_job
from springline.spark_jobs.streaming.runtime.driver.lives import check_parallelism
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.stage import place_stages
from springline.spark_jobs.streaming.runtime.topic_union import topics_of
from springline.testing.memory_log import MemoryLog
from tests.support.streams.declarations import join_sides, written

SIDES = join_sides("job", "one", "two")
STREAM = '[job.stream]\ntime = "t"\nfields = [["t", "timestamp(s)"], ["k", "text"]]\n'
MAX_ACKERS = "[job.tracking]\nmax_ackers = {}\n"


@pytest.mark.parametrize(
    ("declaration", "setting"),
    [
        (f'topic = "t"\nparallelism = {{}}\n{STREAM}', "parallelism"),
        (f'topic = "t"\n{STREAM}{MAX_ACKERS}', "tracking.max_ackers"),
        ('kind = "wordcount"\ntopic = "t"\nparallelism = {}\n', "parallelism"),
        (f'kind = "wordcount"\ntopic = "t"\n{MAX_ACKERS}', "tracking.max_ackers"),
        (f'kind = "tracker"\n{MAX_ACKERS}', "tracking.max_ackers"),
        (f'kind = "join"\non = "l.k = r.k"\ntasks = {{}}\n{SIDES}', "tasks"),
    ],
)
@pytest.mark.parametrize(("before", "now"), [(4, 2), (2, 4)])
def test_a_job_keeps_its_number_of_units(tmp_path: Path, declaration: str, setting: str, before: int, now: int) -> None:
    """The key is named, with its value of before and that of now; the same number is right. Also where no round has
    been planned yet.
    """
    job = read_job(written(tmp_path, f"[job]\n{declaration.format(before)}"), "job")
    log = MemoryLog({**dict.fromkeys(topics_of(job.topic), 3), **topics_of_stages(job)})
    stages = place_stages(job.name, job.stages())
    for stage in stages:
        check_parallelism(stage, log)
    changed_job = read_job(written(tmp_path, f"[job]\n{declaration.format(now)}"), "job")
    expected = rf"job 'job': {setting} was {before} when it first ran, and is {now} now"

    def refused() -> None:
        with pytest.raises(InvalidJobError, match=expected):
            for stage in place_stages(job.name, changed_job.stages()):
                check_parallelism(stage, log)

    refused()
    for stage in stages:
        Planner(stage, log, lambda: 1.0, dict).begin()
    refused()


@pytest.mark.parametrize(
    "declaration",
    [
        f'topic = "t"\nparallelism = 5\n{STREAM}',
        f'topic = "t"\nparallelism = 5\n{STREAM}{MAX_ACKERS.format(7)}',
        'kind = "wordcount"\ntopic = "t"\nparallelism = 5\ntracking = false\n',
        f'kind = "wordcount"\ntopic = "t"\nparallelism = 5\n{MAX_ACKERS.format(7)}',
        f'kind = "tracker"\n{MAX_ACKERS.format(7)}',
        f'kind = "join"\non = "l.k = r.k"\ntasks = 5\n{SIDES}',
    ],
)
def test_each_unit_has_a_place_of_its_own_for_what_it_puts_aside(tmp_path: Path, declaration: str) -> None:
    """A sender in a partition, of every stage that reads what others may have written; so have those that ack."""
    job = read_job(written(tmp_path, f"[job]\n{declaration}"), "job")
    every = place_stages(job.name, job.stages())
    stages = [stage for stage in every if stage.dead_letters]
    assert {stage.name for stage in every} - {stage.name for stage in stages} <= {"acker", "outcome"}
    for sending in (stages, [stage for stage in every if stage.acks]):
        senders = [stage.sender(unit) for stage in sending for unit in range(stage.units)]
        assert len(senders) == len(set(senders))
    assert max(stage.units for stage in stages) <= topics_of_stages(job)[job.dead_letters]
