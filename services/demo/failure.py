"""Tells why DAG runs failed: the tasks, the errors in their logs, and where the logs are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from services.airflow_api import TaskState


def told_failure(dag_id: str, tasks: Iterable[TaskState], home: Path) -> str:
    """One paragraph for each task that failed."""
    told = [_told(task, log_of(dag_id, task, home)) for task in tasks if task.state == "failed"]
    return "\n".join(told) or f"A run of {dag_id} failed, but none of its tasks: see it in Airflow."


def log_of(dag_id: str, task: TaskState, home: Path) -> Path:
    """Where Airflow keeps the log of a task's last try."""
    folder = home / "airflow" / "logs" / f"dag_id={dag_id}" / f"run_id={task.run_id}" / f"task_id={task.task_id}"
    return folder / f"attempt={task.attempt}.log"


def errors_in(lines: Iterable[str]) -> list[str]:
    """The errors in a task's log, which holds one JSON object a line: the exceptions, else what was logged."""
    found = []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if not isinstance(entry, dict) or entry.get("level") not in ("error", "critical"):
            continue
        exceptions = [f"{each['exc_type']}: {each['exc_value']}" for each in entry.get("error_detail") or ()]
        found += exceptions or [str(entry.get("event"))]
    return found


def _told(task: TaskState, log: Path) -> str:
    try:
        errors: Sequence[str] = errors_in(log.read_text(errors="replace").splitlines())
    except OSError:
        errors = ["its log is not there"]
    why = "\n".join(f"    {error}" for error in errors[-3:]) or "    its log holds no error"
    return f"{task.task_id} of {task.day or task.run_id} failed at try {task.attempt}:\n{why}\n    log: {log}"
