"""What the comparisons of strategies share: a Spark and landing files for their trials, and rows of what was seen."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.datasets.processes import spark
from benchmarks.datasets.trial import Conditions, Trial, run_trial
from springline.persistence.model.dataset import Strategy
from springline.spark_jobs.runner import SparkRunner

MB = 1_000_000
IN_TURN = (Strategy.CACHE_ONLY, Strategy.ASYNC_STORE, Strategy.ASYNC_AND_SYNC, Strategy.CACHE_THROUGH)


class Bench:
    """Runs trials one after another in a folder, with a Spark of this process's own."""

    def __init__(self, runner: SparkRunner, folder: Path) -> None:
        self._runner = runner
        self._folder = folder

    def warm_up(self) -> None:
        """One trial that is not counted."""
        run_trial(self._folder / "run", self._runner, Conditions(Strategy.CACHE_ONLY, 1, 0, 4_000 * MB))

    def tried(self, conditions: Conditions) -> Trial:
        """One trial, with a line of progress."""
        trial = run_trial(self._folder / "run", self._runner, conditions)
        wiped = "" if trial.wiped_at is None else f", cache wiped at {trial.wiped_at:.1f} s"
        link = f"{conditions.bandwidth / MB:.0f} MB/s"
        print(f"{conditions.strategy}: {trial.run_seconds:.1f} s over {link}{wiped}", file=sys.stderr, flush=True)
        return trial


@contextmanager
def bench(*, batch: int, batches: int, conf: Mapping[str, str] | None = None) -> Iterator[Bench]:
    """A bench with `batches` landing files of about `batch` bytes, in a folder that goes afterwards."""
    with spark(batch=batch, batches=batches, memory="2g", conf=conf) as (runner, folder):
        yield Bench(runner, folder)


def row_of(what: str, trial: Trial) -> dict[str, Any]:
    """Everything that a trial saw."""
    c = trial.conditions
    return {
        "what": what,
        "strategy": c.strategy.value,
        "link_MB_s": c.bandwidth / MB,
        "batches": c.batches,
        "run_s": round(trial.run_seconds, 2),
        "drain_s": round(trial.drain_seconds, 2),
        "made_MB": round(trial.made_bytes / MB),
        "persisted_MB": round(trial.persisted_bytes / MB),
        "sent_MB": round(trial.sent_bytes / MB),
        "synchronous_MB": round(trial.synchronous_bytes / MB),
        "link_MB_s_used": round(trial.sent_bytes / MB / max(trial.run_seconds + trial.drain_seconds, 1e-9), 1),
        "cache_peak_MB": round(trial.cache_peak / MB),
        "persister_cpu_s": round(trial.persister_cpu_seconds, 1),
        "persister_MB": round(trial.persister_peak_bytes / MB),
        "lost_to_eviction": trial.lost_to_eviction,
        "of": trial.datasets,
        "wiped_at_s": None if trial.wiped_at is None else round(trial.wiped_at, 2),
        "lost": trial.lost,
        "lost_for_good": len(trial.lost_for_good),
        "recovery_s": round(trial.recovery_seconds, 2),
        "batches_ended": trial.batches_ended,
    }


def printed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The columns that fit on a page; all are in the result file."""
    return [{name: row[column] for column, name in _PRINTED.items()} for row in rows]


_PRINTED = {
    "what": "what",
    "strategy": "strategy",
    "link_MB_s": "link MB/s",
    "run_s": "run s",
    "drain_s": "drain s",
    "sent_MB": "sent MB",
    "synchronous_MB": "waited for MB",
    "cache_peak_MB": "cache MB",
    "lost_to_eviction": "evicted for good",
    "lost": "lost",
    "lost_for_good": "for good",
    "of": "of",
    "recovery_s": "recovery s",
}
