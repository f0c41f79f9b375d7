"""The four strategies on the paper's workload, in turn in one run: time, bytes, and what is lost."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import Goal, Report
from benchmarks.trial import Conditions, Trial, run_trial
from benchmarks.workload import make_landing
from persistence.model import Strategy
from services.java import find_java
from spark_jobs.runner import SparkRunner, make_runner
from spark_jobs.settings import JobSettings

_MB = 1_000_000
_ORDER = (Strategy.CACHE_ONLY, Strategy.ASYNC_STORE, Strategy.ASYNC_AND_SYNC, Strategy.CACHE_THROUGH)
_SEED = 20130105


@dataclass(frozen=True)
class Size:
    """How large the comparison is: bytes a batch, batches, links (bytes a second), the cache, and faults."""

    batch: int
    batches: int
    link: float
    other_links: tuple[float, ...]
    capacity: int
    fault_batch: int
    fault_link: float
    moments: int


SIZES = {
    "quick": Size(10 * _MB, 1, 10 * _MB, (), 40 * _MB, 4 * _MB, 4 * _MB, 1),
    "full": Size(250 * _MB, 3, 50 * _MB, (10 * _MB, 200 * _MB), 3_500 * _MB, 16 * _MB, 4 * _MB, 5),
}


def run(size: str) -> Report:
    """Run every strategy once on the main link, on the other links with one batch, and with wiped caches."""
    chosen = SIZES[size]
    rows: list[dict[str, Any]] = []
    with _spark(chosen) as (runner, folder):
        run_trial(folder / "warm", runner, Conditions(Strategy.CACHE_ONLY, 1, 0, chosen.capacity))
        main = [Conditions(s, chosen.batches, chosen.link, chosen.capacity) for s in _ORDER]
        trials = list(_each(folder, runner, main))
        if size == "full":  # the shortest two once more, the other way round: their ratio is the goal nearest to noise
            trials += _each(folder, runner, [main[1], main[0]])
        rows += [_row("run", trial) for trial in trials]
        for link in chosen.other_links:
            others = [Conditions(s, 1, link, chosen.capacity) for s in _ORDER]
            rows += [_row("run", trial) for trial in _each(folder, runner, others)]
        with_operations = replace(main[2], batches=1, operations=True)
        rows += [_row("run, operations sent too", trial) for trial in _each(folder, runner, [with_operations])]
    with _spark(replace(chosen, batch=chosen.fault_batch)) as (runner, folder):
        faults = _faults(folder, runner, chosen)
    rows += [_row("cache wiped" if t.wiped_at is not None else "no fault", t) for t in faults]
    shown = [{column: row[column] for column in _SHOWN} for row in rows]
    return Report("persistence", size, rows, _goals(trials, faults, chosen), _remarks(chosen), shown)


def _faults(folder: Path, runner: SparkRunner, size: Size) -> list[Trial]:
    """A run without a fault and runs with the cache wiped at uniform moments, the same shares for every strategy."""
    base = Conditions(Strategy.CACHE_ONLY, 1, size.fault_link, size.capacity)
    run_trial(folder / "warm", runner, base)
    clean = {s: _tried(folder, runner, replace(base, strategy=s)) for s in _ORDER}
    shares = [random.Random(_SEED + i).random() for i in range(size.moments)]
    wiped = [
        _tried(folder, runner, replace(base, strategy=s, wipe_at=share * clean[s].run_seconds))
        for share in shares
        for s in _ORDER
    ]
    for trial in wiped:  # what was made in the end must be what is made without a fault
        expected = clean[trial.conditions.strategy].digests
        for path, digest in trial.digests.items():
            if not path.endswith("/rotate") and digest != expected[path]:
                raise AssertionError(f"{path} differs from the run without a fault")
    return [*clean.values(), *wiped]


def _each(folder: Path, runner: SparkRunner, conditions: Iterable[Conditions]) -> Iterator[Trial]:
    for chosen in conditions:
        yield _tried(folder, runner, chosen)


def _tried(folder: Path, runner: SparkRunner, conditions: Conditions) -> Trial:
    """One trial, with a line that tells how far the benchmark is."""
    trial = run_trial(folder / "run", runner, conditions)
    wiped = "" if trial.wiped_at is None else f", cache wiped at {trial.wiped_at:.1f} s"
    link = f"{conditions.bandwidth / _MB:.0f} MB/s"
    print(f"{conditions.strategy}: {trial.run_seconds:.1f} s over {link}{wiped}", file=sys.stderr, flush=True)
    return trial


@contextmanager
def _spark(size: Size) -> Iterator[tuple[SparkRunner, Path]]:
    """A Spark of this process's own and landing files, in a folder that goes afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="springline-bench-", dir=Path.cwd()))
    os.environ.update(find_java(os.environ, folder).environment(os.environ.get("PATH", "")))
    for batch in range(1, size.batches + 1):
        make_landing(folder / "landing", batch, size.batch)
    settings = JobSettings(
        home=folder,
        landing=folder / "landing",
        operations=("benchmarks.workload",),
        spark_remote="",
        spark_master="local[2]",
        spark_memory="2g",
        spark_conf={"spark.sql.parquet.compression.codec": "uncompressed", "spark.ui.showConsoleProgress": "false"},
    )
    os.environ["SPRINGLINE_OPERATIONS"] = "benchmarks.workload"
    os.environ["SPRINGLINE_LANDING"] = str(folder / "landing")
    os.environ["SPRINGLINE_SPARK_CONF"] = json.dumps(settings.spark_conf)
    runner = make_runner(settings)
    try:
        yield runner, folder
    finally:
        runner.close()
        shutil.rmtree(folder, ignore_errors=True)


def _row(what: str, trial: Trial) -> dict[str, Any]:
    c = trial.conditions
    return {
        "what": what,
        "strategy": c.strategy.value,
        "link_MB_s": c.bandwidth / _MB,
        "batches": c.batches,
        "run_s": round(trial.run_seconds, 2),
        "drain_s": round(trial.drain_seconds, 2),
        "made_MB": round(trial.made_bytes / _MB),
        "persisted_MB": round(trial.persisted_bytes / _MB),
        "sent_MB": round(trial.sent_bytes / _MB),
        "synchronous_MB": round(trial.synchronous_bytes / _MB),
        "link_MB_s_used": round(trial.sent_bytes / _MB / max(trial.run_seconds + trial.drain_seconds, 1e-9), 1),
        "cache_peak_MB": round(trial.cache_peak / _MB),
        "persister_cpu_s": round(trial.persister_cpu_seconds, 1),
        "persister_MB": round(trial.persister_peak_bytes / _MB),
        "lost_to_eviction": trial.lost_to_eviction,
        "of": trial.datasets,
        "wiped_at_s": None if trial.wiped_at is None else round(trial.wiped_at, 2),
        "lost": trial.lost,
        "lost_for_good": len(trial.lost_for_good),
        "recovery_s": round(trial.recovery_seconds, 2),
        "batches_ended": trial.batches_ended,
    }


_SHOWN = (
    "what", "strategy", "link_MB_s", "batches", "run_s", "drain_s", "sent_MB", "synchronous_MB", "cache_peak_MB",
    "persister_cpu_s", "lost_to_eviction", "of", "wiped_at_s", "lost", "lost_for_good", "recovery_s",
)  # fmt: skip


def _goals(trials: list[Trial], faults: list[Trial], size: Size) -> list[Goal]:
    def seconds(strategy: Strategy) -> float:
        return median(t.run_seconds for t in trials if t.conditions.strategy is strategy)

    only, through = seconds(Strategy.CACHE_ONLY), seconds(Strategy.CACHE_THROUGH)
    asynchronous, both = seconds(Strategy.ASYNC_STORE), seconds(Strategy.ASYNC_AND_SYNC)
    needed = median(t.synchronous_bytes for t in trials if t.conditions.strategy is Strategy.ASYNC_AND_SYNC) / size.link
    safe = [t for t in faults if t.conditions.strategy in (Strategy.ASYNC_AND_SYNC, Strategy.CACHE_THROUGH)]
    evicted = sum(t.lost_to_eviction for t in [*trials, *faults] if t.conditions.strategy is not Strategy.CACHE_ONLY)
    gone = sum(len(t.lost_for_good) for t in safe)
    ratio, below, below_both = asynchronous / only, 1 - asynchronous / through, 1 - both / through
    beside = both / (asynchronous + needed)
    return [
        Goal("Async-Store against cache_only, run time", round(ratio, 3), "at most 1.05", ratio <= 1.05),
        Goal("Async-Store below cache_through", round(below, 3), "at least 0.41", below >= 0.41),
        Goal("Async&Sync below cache_through", round(below_both, 3), "at least 0.26", below_both >= 0.26),
        Goal("Async&Sync against Async-Store plus the link's time", round(beside, 3), "at most 1.05", beside <= 1.05),
        Goal("lost for good under Async&Sync, every wipe", gone, "0", gone == 0),
        Goal("lost to eviction under Async-Store and Async&Sync", evicted, "0", evicted == 0),
    ]


def _remarks(size: Size) -> list[str]:
    return [
        f"Batches of {size.batch // _MB} MB of text as CSV (TPC-H LINEITEM), parquet without compression, "
        f"Spark local[2]; cache of {size.capacity // _MB} MB.",
        f"Faults on batches of {size.fault_batch // _MB} MB at uniform moments, seeds from {_SEED} on.",
        "The link is one for all processes and passes its bytes one after another; copies are synced to disk.",
        "Only 'operations sent too' sends operations: the storage side has no cores of its own on one machine.",
        "lost: generations whose only bytes were in the cache at the wipe; for good: nothing could make them again.",
    ]
