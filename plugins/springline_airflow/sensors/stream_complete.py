"""A gate for a DAG on a range of a tracked job's source: the task ends when every record of the range is completed."""

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

from springline.airflow.platform_context import log_session
from springline.spark_jobs.streaming.application.status import read_status
from springline.spark_jobs.streaming.errors import InvalidRangeError, UnknownJobError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import read_tracked_job
from springline.spark_jobs.streaming.runtime.message_log import MessageLog
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.sql.windowing import instant
from springline.spark_jobs.streaming.tracking.completeness import NotTrackedError, completeness_of
from springline.spark_jobs.streaming.tracking.replay.failures import failures_within

_MAX_SHOWN = 5  # failed records, in a message
_EMPTY_VALUES = ("", "None", "null")  # possible results of an empty template
_MICROS = 1e6

Offsets = dict[str, int]  # by partition, with text keys as in JSON


@dataclass(frozen=True)
class CompletenessTarget:
    """Records of a job's source from some offsets to others (excluded); `none_lost`: none of them may be lost."""

    job: str
    begin: Offsets
    end: Offsets
    none_lost: bool

    def describe_missing(self, folder: JobFolder) -> str:
        """Return what is not yet completed, in words; empty when all is completed."""
        try:
            completeness = completeness_of(folder, _numbers(self.end))
        except NotTrackedError:
            return "it has not tracked any record yet"
        return "" if completeness.is_complete else completeness.describe()


class CompletenessTrigger(BaseTrigger):
    """Fires once the records of its `CompletenessTarget` are completed, or at `until` (seconds since 1970).

    It checks files of the job's folder every `poll` seconds, first after `settle` seconds.
    """

    def __init__(self, target: dict[str, Any], until: float, poll: float = 1.0, settle: float = 10.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.target = target
        self.until = until
        self.poll = poll
        self.settle = settle

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and arguments from which Airflow recreates this trigger."""
        kwargs = {"target": self.target, "until": self.until, "poll": self.poll, "settle": self.settle}
        return f"{CompletenessTrigger.__module__}.{CompletenessTrigger.__qualname__}", kwargs

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Check until nothing is missing, or `until` has passed."""
        await asyncio.sleep(self.settle)  # see QueueTrigger
        while (missing := await asyncio.to_thread(self._read_missing)) and time.time() < self.until:
            await asyncio.sleep(self.poll)
        yield TriggerEvent({"missing": missing})  # type: ignore[no-untyped-call]

    def _read_missing(self) -> str:
        target = CompletenessTarget(**self.target)
        return target.describe_missing(_folder(target.job))


class CompletenessOperator(BaseOperator):
    """Waits until every record of a range of a job's source is completed: fully processed, or failed for good.

    The range ends before the offsets `to`, by partition (a mapping, or JSON of one); or before the first message that
    was appended at the time `end` or later; or, without either, where the topic ended when the task began. It begins at
    the first message that was appended at `begin` or later, otherwise with the topic; the beginning only limits which
    losses count. Times are in ISO format, UTC unless they state an offset.

    It fails when `max_wait` seconds have passed, and with `fail_on_lost` if a record of the range failed for good or
    could not be used. Its return value (XCom) contains the range and the low watermarks, by partition.
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
        open_log: Callable[[], AbstractContextManager[MessageLog]] = log_session,
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
        """Determine the range, and wait for it unless it is completed."""
        now = time.time()
        try:
            topic = read_tracked_job(StreamSettings().declarations, self.job).topic
            begin, end = self._range(topic, now)
        except (UnknownJobError, InvalidRangeError) as hopeless:
            raise AirflowFailException(str(hopeless)) from hopeless
        target = CompletenessTarget(self.job, begin, end, self.fail_on_lost)
        if not (missing := target.describe_missing(_folder(self.job))):
            return self._finish(target)
        self.log.info("%s: waiting for %s: %s.", self.job, _format_offsets(end), missing)
        self.defer(
            trigger=CompletenessTrigger(asdict(target), now + self.max_wait, self.poll),
            method_name=self.resume.__name__,
            kwargs={"target": asdict(target)},
        )
        raise AssertionError("deferring does not return")

    def resume(self, context: Any, event: dict[str, Any], target: dict[str, Any]) -> dict[str, Any]:
        """Continue after the trigger has fired."""
        if missing := event["missing"]:
            state = read_status(self.job, _folder(self.job), time.time()).state
            end = _format_offsets(target["end"])
            raise AirflowException(
                f"{self.job}: not completed up to {end} after {self.max_wait:g} s: {missing}; the job is {state}"
            )
        return self._finish(CompletenessTarget(**target))

    def _range(self, topic: str, now: float) -> tuple[Offsets, Offsets]:
        """Return the first and end offsets of the range; raises `InvalidRangeError`."""
        to, first, last = _parse_offsets(self.to), _parse_seconds("begin", self.begin), _parse_seconds("end", self.end)
        if to is not None and last is not None:
            raise InvalidRangeError(f"{self.job}: the range ends at offsets or at a time: set `to` or `end`, not both")
        if last is not None and last > now:
            raise InvalidRangeError(
                f"{self.job}: end={self.end} is in the future: records can still be appended until then"
            )
        if last is not None and first is not None and first >= last:
            raise InvalidRangeError(
                f"{self.job}: the range from {self.begin} to {self.end} is empty: set an end after the beginning"
            )
        begin: Offsets = {}
        if to is None or first is not None:
            with self._open_log() as log:
                if to is None and last is None:
                    to = _texts({unit: extent.high for unit, extent in log.offset_bounds(topic).items()})
                elif last is not None:
                    to = _texts(log.offsets_for_time(topic, last))
                if first is not None:
                    begin = _texts(log.offsets_for_time(topic, first))
        assert to is not None
        return begin, to

    def _finish(self, target: CompletenessTarget) -> dict[str, Any]:
        """Return the completed range; raises `AirflowFailException` if a record was lost and none may be."""
        if target.none_lost:
            self._check_none_lost(target)
        low_watermarks = completeness_of(_folder(self.job), {}).low_watermarks
        self.log.info("%s: all completed up to %s.", self.job, _format_offsets(target.end))
        return {"job": self.job, "begin": target.begin, "end": target.end, "low_watermarks": _texts(low_watermarks)}

    def _check_none_lost(self, target: CompletenessTarget) -> None:
        job = read_tracked_job(StreamSettings().declarations, self.job)
        with self._open_log() as log:
            lost = failures_within(log, job.dead_letters, job.topic, _numbers(target.begin), _numbers(target.end))
            shown = [f"{each.partition}:{each.offset} ({each.reason})" for each in islice(lost, _MAX_SHOWN)]
            count = len(shown) + sum(1 for _ in lost)
        if count:
            more = f", and {count - len(shown):,} more" if count > len(shown) else ""
            raise AirflowFailException(
                f"{self.job}: {count:,} records up to {_format_offsets(target.end)} "
                f"were lost: {', '.join(shown)}{more}; "
                f"springline stream dead-letters {self.job} shows them"
            )


def _folder(job: str) -> JobFolder:
    return StreamSettings().folder(job)


def _parse_offsets(raw: Mapping[Any, Any] | str | None) -> Offsets | None:
    """Parse offsets by partition, from a user or a template; None if they are not given.

    Raises `InvalidRangeError`.
    """
    if raw is None or (isinstance(raw, str) and raw.strip() in _EMPTY_VALUES):
        return None
    wrong = f'to={raw!r}: write offsets by partition, such as {{"0": 700, "1": 10}}'
    try:
        by_partition = json.loads(raw) if isinstance(raw, str) else raw
        offsets = {int(partition): int(str(offset)) for partition, offset in by_partition.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidRangeError(wrong) from error
    if not offsets or any(number < 0 for pair in offsets.items() for number in pair):
        raise InvalidRangeError(wrong)
    return _texts(offsets)


def _parse_seconds(name: str, raw: object) -> float | None:
    """Parse a time, in seconds since 1970; None if it is not given; raises `InvalidRangeError`."""
    if (text := str(raw).strip()) in _EMPTY_VALUES:
        return None
    try:
        return instant(text) / _MICROS
    except ValueError as error:
        raise InvalidRangeError(f"{name}={text!r}: write a date and time such as 2013-01-31 12:00") from error


def _texts(numbers: Mapping[int, int]) -> Offsets:
    return {str(partition): numbers[partition] for partition in sorted(numbers)}


def _numbers(texts: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): offset for partition, offset in texts.items()}


def _format_offsets(offsets: Mapping[str, int]) -> str:
    return ", ".join(f"{partition}:{offset:,}" for partition, offset in offsets.items())
