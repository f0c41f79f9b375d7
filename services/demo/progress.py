"""Shows the progress of DAG runs and streams: progress bars on a terminal, otherwise one line per step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from springline.services.airflow_api import TaskState

ENDED_STATES = frozenset({"success", "failed", "upstream_failed", "skipped", "removed"})
_REPEAT_SECONDS = 10.0  # minimum between two lines on the same item, without a terminal


class RunProgress(AbstractContextManager["RunProgress"]):
    """One progress bar per DAG run and one line per stream, or plain lines; call `show` and `show_text` repeatedly."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started_at = time.monotonic()
        self._printed_tasks: set[TaskState] = set()
        self._printed_texts: dict[str, tuple[str, float]] = {}
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
        """Show the progress of the DAG run called `name`."""
        ended = [task for task in tasks if task.state in ENDED_STATES]
        if not self._console.is_terminal:
            for task in ended:
                if task not in self._printed_tasks:
                    self._printed_tasks.add(task)
                    self._print(f"{name}  {task.task_id}: {task.state}")
            return
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, now="")
        now = ", ".join(task.task_id for task in tasks if task.state in ("running", "up_for_retry"))
        self._progress.update(self._bars[name], total=len(tasks), completed=len(ended), now=f"{now:24}")
        if tasks and len(ended) == len(tasks):
            self._progress.stop_task(self._bars[name])

    def show_text(self, name: str, text: str) -> None:
        """Show the progress of `name`, which has no known end, as text."""
        if self._console.is_terminal:
            if name not in self._bars:
                self._bars[name] = self._progress.add_task(name, total=None, now="")
            self._progress.update(self._bars[name], now=f"{text:24}")
            return
        before, printed_at = self._printed_texts.get(name, ("", -_REPEAT_SECONDS))
        if text != before and (now := time.monotonic()) - printed_at >= _REPEAT_SECONDS:
            self._printed_texts[name] = (text, now)
            self._print(f"{name}  {text}")

    def _print(self, text: str) -> None:
        self._console.print(f"  {time.monotonic() - self._started_at:4.0f} s  {text}", highlight=False)
