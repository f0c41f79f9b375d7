"""Reports why a demo failed, in a few lines: the failed task or server, the errors in its logs, and their paths."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from springline.services.airflow_api import TaskState
from springline.services.errors import NotReadyError
from springline.services.log_files import one_line

_MOST_TASKS = 3  # that are reported separately


def format_failure(dag_id: str, tasks: Iterable[TaskState], home: Path) -> str:
    """Return a paragraph for each failed task, at most three."""
    failed = [task for task in tasks if task.state == "failed"]
    paragraphs = [_format_task(task, log_of(dag_id, task, home)) for task in failed[:_MOST_TASKS]]
    if len(failed) > _MOST_TASKS:
        paragraphs.append(f"{len(failed) - _MOST_TASKS} more tasks failed: see them in Airflow.")
    return "\n".join(paragraphs) or f"A run of {dag_id} failed, but none of its tasks: see it in Airflow."


def format_error(error: Exception) -> str:
    """Format an error of a server or a DAG: what failed, and the last error and the path of each log."""
    if isinstance(error, NotReadyError) and error.logs:
        return "\n".join((error.sentence, *(log_line(log, last) for log, last in error.logs.items())))
    return str(error)


def log_line(log: Path, last: str) -> str:
    """Format the last line of a log, and its path."""
    return f"    {log.stem}: {last or 'its log is empty'}\n    log: {log}"


def log_of(dag_id: str, task: TaskState, home: Path) -> Path:
    """Return the path of Airflow's log of a task's last try."""
    folder = home / "airflow" / "logs" / f"dag_id={dag_id}" / f"run_id={task.run_id}" / f"task_id={task.task_id}"
    return folder / f"attempt={task.attempt}.log"


def errors_in(lines: Iterable[str]) -> list[str]:
    """Return the errors in a task's log, which has one JSON object per line: the exceptions, else the messages."""
    errors = []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if not isinstance(entry, dict) or entry.get("level") not in ("error", "critical"):
            continue
        exceptions = [f"{each['exc_type']}: {each['exc_value']}" for each in entry.get("error_detail") or ()]
        errors += exceptions or [str(entry.get("event"))]
    return [one_line(error) for error in errors]


def _format_task(task: TaskState, log: Path) -> str:
    try:
        errors: Sequence[str] = errors_in(log.read_text(errors="replace").splitlines())
    except OSError:
        errors = ["its log is missing"]
    reasons = "\n".join(f"    {error}" for error in errors[-3:]) or "    its log contains no error"
    return f"{task.task_id} of {task.day or task.run_id} failed at attempt {task.attempt}:\n{reasons}\n    log: {log}"
