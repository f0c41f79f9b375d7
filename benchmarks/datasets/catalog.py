"""The catalog with a million datasets recorded: what `claim the next` and `explain` take."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from benchmarks.report import Goal, Report
from springline.persistence.catalog import schema
from springline.persistence.engine.runner import NoRunner
from springline.persistence.explain import explain
from springline.persistence.model.dataset import Operation, OperationResult, Strategy, TransferMethod
from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings

_CHAIN = 10  # datasets of one batch: a load, and nine made one from another
_WAITING = 0.1  # share of the batches that is not persisted yet
_ROUNDS = 50


def run(size: str) -> Report:
    """Measure a catalog of a million generations (quick: of 100,000)."""
    rows = measure(1_000_000 if size == "full" else 100_000)
    slowest = max(row["p50_ms"] for row in rows[:3])
    goal = Goal(
        "claim the next, and explain: slowest median", f"{slowest} ms", "milliseconds: below 50 ms", slowest < 50
    )
    return Report("catalog", size, rows, [goal], ["SQLite; a tenth of the datasets waits, in chains of ten."])


def measure(datasets: int) -> list[dict[str, Any]]:
    """Fill a catalog with `datasets` generations, a tenth of them waiting, and time single calls (milliseconds)."""
    home = Path(tempfile.mkdtemp(prefix="springline-bench-"))
    try:
        platform = open_platform(
            Settings(home=home, cache_uri=f"file://{home}/cache", cache_capacity=1 << 60), runner=NoRunner()
        )
        started_at = time.perf_counter()
        fill(platform, datasets)
        filled = time.perf_counter() - started_at
        batches = datasets // _CHAIN
        middle = [f"bench/{batches * i // _ROUNDS}/d5" for i in range(_ROUNDS)]
        waiting = [f"bench/{batches - 1 - i}/d5" for i in range(_ROUNDS)]
        rows = [
            _timed("claim the next", lambda i: _claim(platform)),
            _timed("explain a persisted one", lambda i: explain(platform, middle[i])),
            _timed("explain a waiting one", lambda i: explain(platform, waiting[i])),
            _timed("resolve a path", lambda i: platform.catalog.resolve(middle[i])),
            _timed("write and commit", lambda i: write_one(platform, f"new/{i}")),
        ]
        for row in rows:
            row["datasets"] = datasets
        rows[0]["fill_seconds"] = round(filled, 1)
        platform.close()
        return rows
    finally:
        shutil.rmtree(home)


def fill(platform: Platform, datasets: int) -> None:
    """Record generations as if they had been written and (most of them) persisted."""
    operations = [Operation(f"op{i}", "1", idempotent=i > 0, repeats=1) for i in range(_CHAIN)]
    platform.catalog.register_operations(operations)
    batches = datasets // _CHAIN
    persisted_until = int(batches * (1 - _WAITING))
    now = time.time()
    with platform.catalog.write_transaction() as connection:
        for start in range(0, batches, 1000):
            rows, sources = [], []
            for batch in range(start, min(start + 1000, batches)):
                is_persisted = batch < persisted_until
                for step in range(_CHAIN):
                    identity = batch * _CHAIN + step + 1
                    rows.append(_generation(identity, batch, step, is_persisted, now))
                    if step:
                        sources.append({"generation_id": identity, "position": 0, "source_id": identity - 1})
            connection.execute(insert(schema.generation), rows)
            connection.execute(insert(schema.source), sources)
        connection.execute(insert(schema.commit_counter).values(id=1, number=datasets))


def _generation(identity: int, batch: int, step: int, is_persisted: bool, now: float) -> dict[str, Any]:
    path = f"bench/{batch}/d{step}"
    return {
        "id": identity, "path": path, "generation": 1, "phase": "committed", "bytes": 10_000_000 + identity % 9_999_999,
        "cache": "evicted" if is_persisted else "present", "under": "present" if is_persisted else "none",
        "strategy": "async_store", "persist_requested": True, "operation": f"op{step}", "version": "1", "params": {},
        "compute_seconds": 2.0, "digest": "d", "checksum": "c", "dag_id": "bench", "run_id": f"run {batch}",
        "task_id": f"op{step}", "created_at": now,
        "committed_at": now, "commit_number": identity, "score": float(identity % 1000),
        "cache_location": f"{path}/@1", "under_location": f"{path}/@1-1" if is_persisted else "",
        "persisted_at": now if is_persisted else None,
    }  # fmt: skip


def _claim(platform: Platform) -> None:
    choice = next(platform.persister.candidates())
    lease = platform.claims.claim(choice.ref, "bench", TransferMethod.DATA, None)
    assert lease is not None


def write_one(platform: Platform, path: str) -> None:
    """Write a small dataset and commit it."""
    with platform.store.write(path, strategy=Strategy.ASYNC_STORE) as writing:
        folder = Path(writing.uri.removeprefix("file://"))
        folder.mkdir(parents=True)
        (folder / "part").write_bytes(b"x")
        writing.mark_complete(OperationResult(1, "d", 0.0))


def _timed(what: str, call: Callable[[int], object]) -> dict[str, Any]:
    took = []
    for i in range(_ROUNDS):
        started_at = time.perf_counter()
        call(i)
        took.append((time.perf_counter() - started_at) * 1000)
    took.sort()
    return {"what": what, "p50_ms": round(statistics.median(took), 2), "p95_ms": round(took[int(len(took) * 0.95)], 2)}
