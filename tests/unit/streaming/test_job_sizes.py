"""A job that has run keeps the number of its units: what they hold was placed by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from springline.spark_jobs.streaming.errors import InvalidJobError
from springline.spark_jobs.streaming.job import check_parallelism, topics_of_stages
from springline.spark_jobs.streaming.jobs import read_job
from springline.spark_jobs.streaming.runtime.stage import place_stages
from springline.testing.memory_log import MemoryLog
from tests.support.streams.declarations import join_sides, written

SIDES = join_sides("job", "one", "two")
STREAM = '[job.stream]\ntime = "t"\nfields = [["t", "float"], ["k", "text"]]\n'
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
    """The setting is named, with its value of before and that of now; the same number is right."""
    job = read_job(written(tmp_path, f"[job]\n{declaration.format(before)}"), "job")
    log = MemoryLog(topics_of_stages(job))
    check_parallelism(job, job.stages(), log)
    changed_job = read_job(written(tmp_path, f"[job]\n{declaration.format(now)}"), "job")
    expected = rf"job 'job': {setting} was {before} when it first ran, and is {now} now"
    with pytest.raises(InvalidJobError, match=expected):
        check_parallelism(changed_job, changed_job.stages(), log)


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
@pytest.mark.parametrize("units", [1, 3, 9])
def test_each_unit_has_a_place_of_its_own_for_what_it_puts_aside(tmp_path: Path, declaration: str, units: int) -> None:
    """A sender in a partition, of every stage that reads what others may have written; so have those that ack."""
    job = read_job(written(tmp_path, f"[job]\n{declaration}"), "job")
    every = place_stages(job.name, job.stages())
    stages = [stage for stage in every if stage.dead_letters]
    assert {stage.name for stage in every} - {stage.name for stage in stages} <= {"acker", "outcome"}
    for sending in (stages, [stage for stage in every if stage.acks]):
        senders = [stage.sender(unit) for stage in sending for unit in range(stage.units)]
        assert len(senders) == len(set(senders))
    assert max(stage.units for stage in stages) <= topics_of_stages(job)[job.dead_letters]
