"""Shows how far DAG runs and streams are: bars that move on a terminal, else a line for each step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from springline.services.airflow_api import TaskState

ENDED = frozenset({"success", "failed", "upstream_failed", "skipped", "removed"})
_AGAIN_SECONDS = 10.0  # between two lines about the same thing, where there is no terminal


class RunProgress(AbstractContextManager["RunProgress"]):
    """One bar a DAG run and one line a stream, or plain lines; told again and again how far they are."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = time.monotonic()
        self._told: set[TaskState] = set()
        self._words: dict[str, tuple[str, float]] = {}
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
                    self._say(f"{name}  {task.task_id}: {task.state}")
            return
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, now="")
        now = ", ".join(task.task_id for task in tasks if task.state in ("running", "up_for_retry"))
        self._progress.update(self._bars[name], total=len(tasks), completed=len(ended), now=f"{now:24}")
        if tasks and len(ended) == len(tasks):
            self._progress.stop_task(self._bars[name])

    def tell(self, name: str, words: str) -> None:
        """Show in words how far `name` is, which has no known end."""
        if self._console.is_terminal:
            if name not in self._bars:
                self._bars[name] = self._progress.add_task(name, total=None, now="")
            self._progress.update(self._bars[name], now=f"{words:24}")
            return
        before, at = self._words.get(name, ("", -_AGAIN_SECONDS))
        if words != before and (now := time.monotonic()) - at >= _AGAIN_SECONDS:
            self._words[name] = (words, now)
            self._say(f"{name}  {words}")

    def _say(self, words: str) -> None:
        self._console.print(f"  {time.monotonic() - self._begun:4.0f} s  {words}", highlight=False)
