"""Registers the steps of joins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.router import Router, Source
from springline.spark_jobs.streaming.join.unit.unit import JoinUnit
from springline.spark_jobs.streaming.runtime.stage import register_step


def _router(
    left: Mapping[str, Any],
    right: Mapping[str, Any],
    units: int,
    condition: Mapping[str, Any],
    *,
    clocked: bool = False,
) -> Router:
    sides, made = (Source.from_json(left), Source.from_json(right)), Condition.from_json(condition)
    return Router(*sides, units, made, clocked=clocked)


register_step("join.route", _router)
register_step("join.unit", JoinUnit)
