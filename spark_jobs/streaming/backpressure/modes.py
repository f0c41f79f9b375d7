"""The modes by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from springline.spark_jobs.streaming.backpressure.admission import Admission, Mode, Off
from springline.spark_jobs.streaming.backpressure.predictive import Predictive, Tuning
from springline.spark_jobs.streaming.backpressure.stepwise import Marks, Stepwise
from springline.spark_jobs.streaming.backpressure.stepwise_patent import StepwiseLiteral

RECOMMENDED = Mode.PREDICTIVE


def make_admission(
    mode: Mode,
    stage: str,
    state: Mapping[str, Any] | None = None,
    *,
    marks: Marks | None = None,
    tuning: Tuning | None = None,
) -> Admission:
    """The admission of a stage; `state` is what one of the same mode told before it ended."""
    if mode is Mode.OFF:
        return Off()
    if mode is Mode.STEPWISE:
        return Stepwise(stage, marks, state)
    if mode is Mode.STEPWISE_LITERAL:
        return StepwiseLiteral(stage, marks, state)
    return Predictive(stage, tuning, state)
