"""One trial: the workload under one strategy, with a persister beside it, and perhaps a wiped cache on the way."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.datasets.processes import start_persister
from benchmarks.datasets.workload import IN_ORDER
from springline.persistence.decisions.recovery import assess_risk
from springline.persistence.engine.restorer import RecoveryReport, Restorer
from springline.persistence.errors import IrrecoverableError, PersistenceError
from springline.persistence.model.dataset import CacheState, Origin, Ref, Strategy, TransferMethod, UnderStoreState
from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings
from springline.spark_jobs.materialize import materialize
from springline.spark_jobs.runner import SparkRunner

_TRIES = 3  # of one task, as Airflow would
_DATA_ONLY = 1 << 60  # bytes up to which data is sent rather than the operation


@dataclass(frozen=True)
class Conditions:
    """What a trial is run under: bytes a second of the link, bytes of the cache, moment of the wipe (seconds)."""

    strategy: Strategy
    batches: int
    bandwidth: float
    capacity: int
    operations: bool = False
    wipe_at: float | None = None
    under: str = ""  # URI of the under-store, with its options; empty: a folder


@dataclass
class Trial:
    """What was seen; bytes and seconds."""

    conditions: Conditions
    run_seconds: float = 0.0
    drain_seconds: float = 0.0
    made_bytes: int = 0
    sent_bytes: int = 0
    persisted_bytes: int = 0
    synchronous_bytes: int = 0
    lost_to_eviction: int = 0
    cache_peak: int = 0
    persister_cpu_seconds: float = 0.0
    persister_peak_bytes: int = 0
    datasets: int = 0
    wiped_at: float | None = None
    lost: int = 0  # generations whose only bytes were in the cache at the wipe
    lost_for_good: list[str] = field(default_factory=list)
    recovery_seconds: float = 0.0
    batches_ended: int = 0
    digests: dict[str, str] = field(default_factory=dict)


def run_trial(home: Path, runner: SparkRunner, conditions: Conditions) -> Trial:
    """Run the workload in the empty folder `home`, then let the persister finish, then clear up."""
    settings = Settings(
        home=home,
        cache_uri=f"file:///dev/shm/springline-bench-{os.getpid()}",
        cache_capacity=conditions.capacity,
        under_uri=conditions.under,
        under_bandwidth=conditions.bandwidth,
        min_operation_bytes=(1 << 20) if conditions.operations else _DATA_ONLY,
        lease_seconds=10,
        retry_seconds=0.5,
    )
    trial = Trial(conditions)
    platform = open_platform(settings, runner=runner, actor="benchmark")
    restorer = _Timed(**vars(platform.restorer))
    platform.restorer = platform.store.restorer = restorer
    try:
        with _persister(settings, conditions, trial) as persister, _watched(platform, trial):
            wipe = _wipe_later(platform, trial)
            started_at = time.monotonic()
            for batch in range(1, conditions.batches + 1):
                trial.batches_ended += _run_batch(platform, batch, conditions.strategy)
            trial.run_seconds = time.monotonic() - started_at
            wipe.cancel()
            restorer.bring_back([d.ref for d in platform.maintenance.find_lost()]).require_no_failure()
            while platform.claims.depth():
                if persister.poll() is not None:
                    raise RuntimeError(f"the persister ended with status {persister.returncode}")
                time.sleep(0.05)
            trial.drain_seconds = time.monotonic() - started_at - trial.run_seconds
        trial.recovery_seconds = restorer.spent
        _take_stock(platform, trial)
    finally:
        platform.close()
        shutil.rmtree(settings.cache_uri.removeprefix("file://"), ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)
    return trial


def _run_batch(platform: Platform, batch: int, strategy: Strategy) -> bool:
    """One batch in order, a failed task tried again; False if it could not be ended."""
    origin = Origin("benchmark", f"batch {batch}")
    for name in IN_ORDER:
        for attempt in range(1, _TRIES + 1):
            try:
                materialize(
                    platform, name, {"batch": str(batch)}, origin=replace(origin, task_id=name), strategy=strategy
                )
                break
            except IrrecoverableError:
                return False  # the loss has been counted when it happened
            except (PersistenceError, FileNotFoundError):
                if attempt == _TRIES:
                    raise
    platform.catalog.end_run(origin, "success")
    return True


@dataclass
class _Timed(Restorer):
    """A restorer that adds up the time it takes."""

    spent: float = 0.0

    def bring_back(self, targets: Sequence[Ref], *, sending: Ref | None = None) -> RecoveryReport:
        report = super().restore(targets, sending=sending)
        self.spent += report.seconds if report.steps else 0.0
        return report


@contextmanager
def _persister(settings: Settings, conditions: Conditions, trial: Trial) -> Iterator[subprocess.Popen[bytes]]:
    """A persister in a process of its own while inside."""
    before = os.times()
    process = start_persister(
        settings, runner="springline.spark_jobs.runner:make_runner" if conditions.operations else ""
    )
    try:
        yield process
    finally:
        trial.persister_peak_bytes = _peak_bytes(process.pid)
        process.terminate()
        process.wait()
        after = os.times()
        trial.persister_cpu_seconds = (
            after.children_user - before.children_user + after.children_system - before.children_system
        )


@contextmanager
def _watched(platform: Platform, trial: Trial) -> Iterator[None]:
    """Note the most that the cache held while inside."""
    end = threading.Event()

    def watch() -> None:
        while not end.wait(0.5):
            trial.cache_peak = max(trial.cache_peak, platform.catalog.cache_used())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _wipe_later(platform: Platform, trial: Trial) -> threading.Timer:
    """Delete the whole cache folder at the moment that the conditions name, noting what is lost thereby."""
    started_at = time.monotonic()

    def wipe() -> None:
        lineage = platform.catalog.lineage_of_cache()
        risk = assess_risk(lineage, platform.catalog.load_cost_model(lineage))
        root = Path(platform.settings.cache_uri.removeprefix("file://"))
        for entry in root.iterdir():
            shutil.rmtree(entry, ignore_errors=True)
        trial.wiped_at = time.monotonic() - started_at
        trial.lost = len(risk.irrecoverable) + len(risk.unproven) + len(risk.recomputable)
        trial.lost_for_good = [str(ref) for ref in risk.irrecoverable]

    at = trial.conditions.wipe_at
    timer = threading.Timer(at if at is not None else 0.0, wipe)
    if at is not None:
        timer.start()
    return timer


def _take_stock(platform: Platform, trial: Trial) -> None:
    datasets = platform.catalog.find(limit=100_000)
    committed = [d for d in datasets if d.committed_at is not None]
    trial.datasets = len(committed)
    trial.made_bytes = sum(d.bytes for d in committed)
    persisted = [d for d in committed if d.persisted]
    trial.persisted_bytes = sum(d.bytes for d in persisted)
    trial.sent_bytes = sum(d.bytes for d in persisted if d.method is TransferMethod.DATA)
    trial.synchronous_bytes = sum(
        d.bytes for d in persisted if d.persisted_at and d.committed_at and d.persisted_at <= d.committed_at
    )
    trial.lost_to_eviction = sum(d.cache is CacheState.EVICTED and d.under is UnderStoreState.NONE for d in committed)
    trial.digests = {d.ref.path: d.digest for d in committed}


def _peak_bytes(pid: int) -> int:
    """The most memory that a process has held; 0 if it has ended."""
    if not Path(f"/proc/{pid}/status").exists():
        return 0
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
