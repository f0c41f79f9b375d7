"""A range of a tracked job's source as a gate for a DAG: the task ends when every record of the range is through."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from springline.airflow.platform_context import opened_log
from springline.spark_jobs.streaming.application.status import look
from springline.spark_jobs.streaming.errors import InvalidRangeError, UnknownJobError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import tracked_job_of
from springline.spark_jobs.streaming.runtime.message_log import Log
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.sql.windowing import instant
from springline.spark_jobs.streaming.tracking.completeness import NotTrackedError, completeness_of
from springline.spark_jobs.streaming.tracking.replay.failures import failures_within

_SHOWN = 5  # records that were given up, in words
_NOT_GIVEN = ("", "None", "null")  # what a template may come to
_MICROS = 1e6

Offsets = dict[str, int]  # by partition, as JSON has it


@dataclass(frozen=True)
class Awaited:
    """Records of a job's source from some offsets up to others, those not included; and whether none may be lost."""

    job: str
    begin: Offsets
    end: Offsets
    none_lost: bool

    def missing(self, folder: JobFolder) -> str:
        """What is still waited for, in words; empty when all is through."""
        try:
            found = completeness_of(folder, _numbers(self.end))
        except NotTrackedError:
            return "it has tracked nothing yet"
        return "" if found.through else found.say()


class CompletenessTrigger(BaseTrigger):
    """Fires once the awaited records (of `Awaited`) are through, or at `until` (seconds since 1970).

    It looks every `poll` seconds, first after `settle` seconds, into files of the job's folder.
    """

    def __init__(self, awaited: dict[str, Any], until: float, poll: float = 1.0, settle: float = 10.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.awaited = awaited
        self.until = until
        self.poll = poll
        self.settle = settle

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """How Airflow makes this trigger again."""
        kwargs = {"awaited": self.awaited, "until": self.until, "poll": self.poll, "settle": self.settle}
        return f"{CompletenessTrigger.__module__}.{CompletenessTrigger.__qualname__}", kwargs

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until nothing is missing, or the time is up."""
        await asyncio.sleep(self.settle)  # see QueueTrigger
        while (missing := await asyncio.to_thread(self._look)) and time.time() < self.until:
            await asyncio.sleep(self.poll)
        yield TriggerEvent({"missing": missing})  # type: ignore[no-untyped-call]

    def _look(self) -> str:
        awaited = Awaited(**self.awaited)
        return awaited.missing(_folder(awaited.job))


class CompletenessOperator(BaseOperator):
    """Waits until every record of a range of a job's source is through: processed to the end, or given up.

    The range ends before the offsets `to`, by partition (a mapping, or JSON of one); or before the first message that
    was appended at the time `end` or later; or, without either, where the topic ended when the task began. It begins
    at the first message that was appended at `begin` or later, else with the topic; that only tells whose loss counts.
    Times are ISO's, UTC unless they say otherwise.

    It fails when `max_wait` seconds have passed, and with `fail_on_lost` when a record of the range was given up or
    could not be used. What it returns (and thus its XCom) tells the range and the low-water marks, by partition.
    """

    template_fields: Sequence[str] = ("to", "begin", "end")
    ui_color = "#e8eef4"

    def __init__(
        self,
        *,
        job: str,
        to: Mapping[Any, Any] | str | None = None,
        begin: str = "",
        end: str = "",
        max_wait: float = 3600.0,
        fail_on_lost: bool = False,
        poll: float = 1.0,
        open_log: Callable[[], AbstractContextManager[Log]] = opened_log,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.to = to
        self.begin = begin
        self.end = end
        self.max_wait = max_wait
        self.fail_on_lost = fail_on_lost
        self.poll = poll
        self._open_log = open_log

    def execute(self, context: Any) -> dict[str, Any]:
        """Find the range, and wait for it unless it is through."""
        now = time.time()
        try:
            topic = tracked_job_of(StreamSettings().declarations, self.job).topic
            begin, end = self._range(topic, now)
        except (UnknownJobError, InvalidRangeError) as hopeless:
            raise AirflowFailException(str(hopeless)) from hopeless
        awaited = Awaited(self.job, begin, end, self.fail_on_lost)
        if not (missing := awaited.missing(_folder(self.job))):
            return self._done(awaited)
        self.log.info("%s: waiting for %s: %s.", self.job, _said(end), missing)
        self.defer(
            trigger=CompletenessTrigger(asdict(awaited), now + self.max_wait, self.poll),
            method_name=self.resume.__name__,
            kwargs={"awaited": asdict(awaited)},
        )
        raise AssertionError("deferring does not return")

    def resume(self, context: Any, event: dict[str, Any], awaited: dict[str, Any]) -> dict[str, Any]:
        """Go on once the trigger has fired."""
        if missing := event["missing"]:
            state = look(self.job, _folder(self.job), time.time()).state
            end = _said(awaited["end"])
            raise AirflowException(
                f"{self.job}: not through up to {end} after {self.max_wait:g} s: {missing}; the job is {state}"
            )
        return self._done(Awaited(**awaited))

    def _range(self, topic: str, now: float) -> tuple[Offsets, Offsets]:
        """The offsets that the range begins and ends at; raises `InvalidRangeError`."""
        to, first, last = _offsets(self.to), _seconds("begin", self.begin), _seconds("end", self.end)
        if to is not None and last is not None:
            raise InvalidRangeError(f"{self.job}: the range ends at offsets or at a time: give `to` or `end`, not both")
        if last is not None and last > now:
            raise InvalidRangeError(
                f"{self.job}: end={self.end} is ahead: what is appended until then is not known yet"
            )
        if last is not None and first is not None and first >= last:
            raise InvalidRangeError(
                f"{self.job}: from {self.begin} to {self.end} there is no time: give an end after the beginning"
            )
        begin: Offsets = {}
        if to is None or first is not None:
            with self._open_log() as log:
                if to is None and last is None:
                    to = _texts({unit: extent.high for unit, extent in log.extents(topic).items()})
                elif last is not None:
                    to = _texts(log.offsets_at(topic, last))
                if first is not None:
                    begin = _texts(log.offsets_at(topic, first))
        assert to is not None
        return begin, to

    def _done(self, awaited: Awaited) -> dict[str, Any]:
        """What was waited for; fails where a record of it was lost and none may be."""
        if awaited.none_lost:
            self._check_none_lost(awaited)
        marks = completeness_of(_folder(self.job), {}).marks
        self.log.info("%s: all through up to %s.", self.job, _said(awaited.end))
        return {"job": self.job, "begin": awaited.begin, "end": awaited.end, "marks": _texts(marks)}

    def _check_none_lost(self, awaited: Awaited) -> None:
        job = tracked_job_of(StreamSettings().declarations, self.job)
        with self._open_log() as log:
            lost = failures_within(log, job.dead, job.topic, _numbers(awaited.begin), _numbers(awaited.end))
            shown = [f"{each.partition}:{each.offset} ({each.reason})" for each in islice(lost, _SHOWN)]
            count = len(shown) + sum(1 for _ in lost)
        if count:
            more = f", and {count - len(shown):,} more" if count > len(shown) else ""
            raise AirflowFailException(
                f"{self.job}: {count:,} records up to {_said(awaited.end)} were lost: {', '.join(shown)}{more}; "
                f"springline stream dead-letters {self.job} shows them"
            )


def _folder(job: str) -> JobFolder:
    return StreamSettings().folder(job)


def _offsets(told: Mapping[Any, Any] | str | None) -> Offsets | None:
    """Offsets by partition, as a person or a template gives them; None where they are not given.

    Raises `InvalidRangeError`.
    """
    if told is None or (isinstance(told, str) and told.strip() in _NOT_GIVEN):
        return None
    wrong = f'to={told!r}: give offsets by partition, as {{"0": 700, "1": 10}}'
    try:
        given = json.loads(told) if isinstance(told, str) else told
        found = {int(partition): int(str(offset)) for partition, offset in given.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidRangeError(wrong) from error
    if not found or any(number < 0 for pair in found.items() for number in pair):
        raise InvalidRangeError(wrong)
    return _texts(found)


def _seconds(name: str, told: object) -> float | None:
    """A moment, in seconds since 1970; None where it is not given; raises `InvalidRangeError`."""
    if (text := str(told).strip()) in _NOT_GIVEN:
        return None
    try:
        return instant(text) / _MICROS
    except ValueError as error:
        raise InvalidRangeError(f"{name}={text!r}: give a date and time such as 2013-01-31 12:00") from error


def _texts(numbers: Mapping[int, int]) -> Offsets:
    return {str(partition): numbers[partition] for partition in sorted(numbers)}


def _numbers(texts: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): offset for partition, offset in texts.items()}


def _said(offsets: Mapping[str, int]) -> str:
    return ", ".join(f"{partition}:{offset:,}" for partition, offset in offsets.items())
