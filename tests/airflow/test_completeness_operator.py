"""The task that waits until a range of a tracked job is through, its trigger, and what counts as lost."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

from springline.airflow.sensors.stream_complete import CompletenessOperator, CompletenessTrigger
from springline.spark_jobs.streaming.runtime.atomic_files import write_json
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from springline.spark_jobs.streaming.tracking.config import LOW_WATERMARKS
from springline.testing.memory_log import MemoryLog
from tests.support.airflow.triggers import first_payload

NOON = 1_357_387_200.0  # 2013-01-05 12:00
MARKS = {"0": 700, "1": 800}


@pytest.fixture
def log() -> MemoryLog:
    """Lines, one an hour from noon on, in the first of two partitions: at offsets 0, 2, 3, 5; and no dead letters."""
    memory_log = MemoryLog({"lines": 2, "words.dead-letters": 2})
    for hour in range(4):
        memory_log.put("lines", 0, b"a line", NOON + 3600 * hour)
    return memory_log


def operator(log: MemoryLog, **changes: Any) -> CompletenessOperator:
    """The task."""
    arguments = {"job": "words", **changes}
    return CompletenessOperator(task_id="gate", open_log=lambda: nullcontext(log), **arguments)


def lose(log: MemoryLog, partition: int, offset: int) -> None:
    """A dead letter."""
    place = {"topic": b"lines", "partition": b"%d" % partition, "offset": b"%d" % offset}
    log._append(OutgoingRecord("words.dead-letters", 0, b"a line", {**place, "reason": b"row 0: sent 5 times"}))


@pytest.mark.parametrize("to", [{0: 700, "1": "10"}, '{"0": 700, "1": 10}'])
def test_what_is_through_lets_pass_at_once(words_job, log, to):
    """Without a trigger; offsets can be JSON, as templates make it; what is returned is what was waited for."""
    result = operator(log, to=to).execute({})
    assert result == {"job": "words", "begin": {}, "end": {"0": 700, "1": 10}, "low_watermarks": MARKS}
    assert json.loads(json.dumps(result)) == result


def test_what_is_not_through_is_waited_for_as_a_trigger(words_job, log):
    """And then the task goes on with the same range."""
    task = operator(log, to={"0": 750}, poll=0.01)
    with pytest.raises(TaskDeferred) as deferred:
        task.execute({})
    assert isinstance(deferred.value.trigger, CompletenessTrigger)
    assert json.loads(json.dumps(deferred.value.kwargs)) == deferred.value.kwargs
    write_json(words_job.path / LOW_WATERMARKS, {"low_watermarks": {"0": 750}})
    result = task.resume({}, event={"missing": ""}, **deferred.value.kwargs)
    assert (result["end"], result["low_watermarks"]) == ({"0": 750}, {"0": 750})


@pytest.mark.parametrize("target_offsets", [None, "", "None", "null"])
def test_without_a_range_all_that_was_in_the_topic_is_waited_for(words_job, log, target_offsets):
    """What comes later is not; a template that comes to nothing is none."""
    assert operator(log, to=target_offsets).execute({})["end"] == {"0": log.offset_bounds("lines")[0].high, "1": 0}
    write_json(words_job.path / LOW_WATERMARKS, {"low_watermarks": {"0": 5}})
    with pytest.raises(TaskDeferred) as deferred:
        operator(log, to=target_offsets).execute({})
    before = deferred.value.kwargs["target"]["end"]
    log.put("lines", 0, b"later")
    assert before == {"0": 6, "1": 0} and log.offset_bounds("lines")[0].high > 6


def test_a_range_of_time_ends_before_the_first_message_at_its_end(words_job, log):
    """Or where the topic ends, if there is none yet; times are UTC unless they say otherwise.

    Both, and offsets, are templates, so that a gate follows its DAG run's data interval.
    """
    assert set(CompletenessOperator.template_fields) == {"to", "begin", "end"}
    result = operator(log, begin="2013-01-05 13:00", end="2013-01-05T15:00:00+01:00").execute({})
    assert (result["begin"], result["end"]) == ({"0": 2, "1": 0}, {"0": 3, "1": 0})
    assert operator(log, end="2013-01-06").execute({})["end"] == {"0": log.offset_bounds("lines")[0].high, "1": 0}


@pytest.mark.parametrize(
    ("changes", "expected_message"),
    [
        ({"to": {"0": 1}, "end": "2013-01-05"}, "`to` or `end`, not both"),
        ({"to": "0:700"}, "write offsets by partition"),
        ({"to": "[700]"}, "write offsets by partition"),
        ({"to": {}}, "write offsets by partition"),
        ({"to": {"0": -1}}, "write offsets by partition"),
        ({"to": {"0": 1.5}}, "write offsets by partition"),
        ({"end": "noon"}, "end='noon': write a date and time"),
        ({"end": "2999-01-01"}, "end=2999-01-01 is in the future"),
        ({"begin": "2013-01-06", "end": "2013-01-05"}, "is empty: set an end after the beginning"),
        ({"job": "other"}, r"no job 'other' is declared in .*; declared: words"),
    ],
)
def test_a_range_or_job_that_cannot_be_fails_at_once(words_job, log, changes, expected_message):
    """No retry can repair it."""
    with pytest.raises(AirflowFailException, match=expected_message):
        operator(log, **changes).execute({})


def test_a_gate_that_times_out_reports_what_is_missing_and_how_the_job_is(words_job, log):
    """A retry may find it through."""
    task = operator(log, to={"0": 750}, max_wait=0.0)
    with pytest.raises(TaskDeferred) as deferred:
        task.execute({})
    event = first_event(deferred.value.trigger)
    reason = r"not completed up to 0:750 after 0 s: 50 messages of partition 0"
    with pytest.raises(AirflowException, match=reason) as late:
        task.resume({}, event=event, **deferred.value.kwargs)
    assert "the job is dead" in str(late.value) and not isinstance(late.value, AirflowFailException)


# ---- what was lost


def test_an_abandoned_record_lets_pass_unless_it_may_not(words_job, log):
    """Then the error names the first ones, and no retry helps."""
    for offset in range(10, 17):
        lose(log, 1, offset)
    assert operator(log, to={"1": 15}).execute({})
    with pytest.raises(AirflowFailException, match=r"5 records up to 1:15 were lost: 1:10 \(row 0: sent 5 times\)"):
        operator(log, to={"1": 15}, fail_on_lost=True).execute({})
    with pytest.raises(AirflowFailException, match=r"7 records .*1:14 .*, and 2 more; .*stream dead-letters words"):
        operator(log, to={"1": 100}, fail_on_lost=True).execute({})


def test_only_a_loss_in_the_range_counts(words_job, log):
    """Not one before it, behind it, or in a partition that is not asked for."""
    for partition, offset in ((0, 0), (0, 3), (1, 1)):
        lose(log, partition, offset)
    within = {"begin": "2013-01-05 13:00", "end": "2013-01-05 14:00"}  # offset 2 alone
    with pytest.raises(AirflowFailException, match="1 records up to 0:3, 1:0 were lost"):
        operator(log, end="2013-01-05 14:00", fail_on_lost=True).execute({})
    assert operator(log, **within, fail_on_lost=True).execute({})["begin"] == {"0": 2, "1": 0}


# ---- the trigger


def first_event(trigger: CompletenessTrigger) -> dict[str, str]:
    """What the trigger fires with, recomputed from JSON as Airflow does; it polls often and from the start."""
    classpath, kwargs = trigger.serialize()
    assert classpath == "springline.airflow.sensors.stream_complete.CompletenessTrigger"
    assert json.loads(json.dumps(kwargs)) == kwargs
    return first_payload(CompletenessTrigger(**{**kwargs, "poll": 0.01, "settle": 0.0}))


def trigger(until: float) -> CompletenessTrigger:
    """A trigger that awaits offset 750 of the first partition."""
    target = {"job": "words", "begin": {}, "end": {"0": 750}, "none_lost": False}
    return CompletenessTrigger(target, time.time() + until)


def test_the_trigger_fires_when_the_mark_is_there(words_job, monkeypatch):
    """It polls again and again until then."""
    polls = iter([700, 749, 750])
    missing = CompletenessTrigger._read_missing

    def lower_and_read(self: CompletenessTrigger) -> str:
        write_json(words_job.path / LOW_WATERMARKS, {"low_watermarks": {"0": next(polls)}})
        return missing(self)

    monkeypatch.setattr(CompletenessTrigger, "_read_missing", lower_and_read)
    assert first_event(trigger(60)) == {"missing": ""}
    assert next(polls, None) is None


def test_the_trigger_fires_when_its_time_is_up(words_job):
    """With what is missing; a job that never tracked may still begin, and is waited for as well."""
    assert first_event(trigger(0)) == {"missing": "50 messages of partition 0"}
    (words_job.path / LOW_WATERMARKS).unlink()
    assert first_event(trigger(0)) == {"missing": "it has not tracked any record yet"}
