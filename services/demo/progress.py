"""Shows how far DAG runs are: bars that move on a terminal, else one line for each task that ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from services.airflow_api import TaskState

ENDED = frozenset({"success", "failed", "upstream_failed", "skipped", "removed"})


class RunProgress(AbstractContextManager["RunProgress"]):
    """One bar a DAG run, or plain lines; told again and again how far the tasks are."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = time.monotonic()
        self._told: set[TaskState] = set()
        self._bars: dict[str, TaskID] = {}
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[now]}"),
            TimeElapsedColumn(), console=console, disable=not console.is_terminal,
        )  # fmt: skip

    def __enter__(self) -> RunProgress:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, name: str, tasks: Sequence[TaskState]) -> None:
        """Show how far the run called `name` is."""
        ended = [task for task in tasks if task.state in ENDED]
        if not self._console.is_terminal:
            for task in ended:
                if task not in self._told:
                    self._told.add(task)
                    after = time.monotonic() - self._begun
                    self._console.print(f"  {after:4.0f} s  {name}  {task.task_id}: {task.state}", highlight=False)
            return
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, now="")
        now = ", ".join(task.task_id for task in tasks if task.state in ("running", "up_for_retry"))
        self._progress.update(self._bars[name], total=len(tasks), completed=len(ended), now=f"{now:24}")
        if tasks and len(ended) == len(tasks):
            self._progress.stop_task(self._bars[name])
