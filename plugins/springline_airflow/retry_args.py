"""Retry arguments of tasks: enough retries to outlast the restart of any server that a task needs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

RETRY_ARGS: dict[str, Any] = {
    "retries": 6,
    "retry_delay": timedelta(seconds=5),
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=1),
}
"""Arguments of a task, or a DAG's `default_args`: six retries, from 5 s apart to a minute, over about four minutes.

Servers that die one after another end as many tries as they are, so two or three are too few. Airflow counts tries on
when a run is cleared: a day that was run again often waits the minute from its first retry. What no retry can mend
fails at once, whatever is set here.
"""
