"""The API's calls about datasets with 100,000 of them recorded, while others are written and persisted."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from sqlalchemy import insert

from benchmarks.datasets.catalog import fill, write_one
from benchmarks.report import Goal, Report
from springline.persistence.catalog import schema
from springline.persistence.engine.runner import NoRunner
from springline.persistence.model.dataset import CacheState, Ref, TransferMethod
from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings

_DATASETS = 100_000
_LIMIT = 200.0  # milliseconds
_CALLS = {"quick": 20, "full": 60}  # of each; before all of them together, 1,000 datasets can be persisted
_REMARK = (
    "SQLite; a tenth of the datasets is only in the cache. Before each call one is written, and another persisted."
)
_REQUESTS = {
    "lineage": "lineage",
    "lineage of a DAG run": "lineage?dag_id=bench&run_id=run {0}",
    "a generation in the lineage": "lineage/cell?path=bench/{0}/d5",
    "completion of a DAG run": "lineage/values?field=run_id&text=run {0}",
    "queue": "queue",
    "queue, another policy": "queue?what_if=paper",
    "why one is not persisted": "queue/explain?path=bench/{0}/d5",
    "at risk": "at-risk",
    "the risk over time": "at-risk/history",
    "a dataset": "datasets/bench/{0}/d5",
    "its neighbours": "datasets/bench/{0}/d5@1/lineage",
    "the newest datasets": "datasets",
    "datasets by a part of the path": "datasets?search=nch/{0}/",
    "lost datasets": "datasets?status=lost",
}


def run(size: str) -> Report:
    """Measure each call, as a user who may read everything; others get less."""
    with temporary_platform() as platform:
        fill(platform, _DATASETS)
        _sample(platform)
        with client(platform) as get:
            rows = measure(get, _CALLS[size], lambda i: _stir(platform, i))
    slowest = max(rows, key=lambda row: row["p95_ms"])
    goal = Goal(
        f"the slowest call, {slowest['call']}: 95th percentile", f"{slowest['p95_ms']} ms", "below 200 ms",
        slowest["p95_ms"] < _LIMIT,
    )  # fmt: skip
    return Report("dataset_calls", size, rows, [goal], [_REMARK])


def measure(get: Callable[[str], Any], calls: int, change: Callable[[int], None]) -> list[dict[str, Any]]:
    """Milliseconds of each call, from the request to the whole answer, one after another; between them `change`."""
    rows = []
    for n, (what, place) in enumerate(_REQUESTS.items()):
        took, size = [], 0
        for i in range(calls):
            change(n * calls + i)
            started_at = time.perf_counter()
            answer = get(place.format(i * (_DATASETS // 10 // calls)))
            took.append((time.perf_counter() - started_at) * 1000)
            assert answer.status_code == 200, answer.text
            size = len(answer.content)
        p50, p95 = np.percentile(took, [50, 95])
        rows.append({"call": what, "p50_ms": round(p50), "p95_ms": round(p95), "answer_bytes": size, "calls": calls})
    return rows


def _stir(platform: Platform, i: int) -> None:
    """Commit one dataset more, and persist one of those that wait."""
    write_one(platform, f"new/{i}")
    waiting = platform.catalog.get(Ref(f"bench/{_DATASETS // 10 - 1 - i}/d{i % 10}", 1))
    assert waiting.cache is CacheState.PRESENT and not waiting.persisted
    lease = platform.claims.claim(waiting.ref, "bench", TransferMethod.DATA, None)
    assert lease is not None
    platform.claims.complete(lease, method=TransferMethod.DATA, location="there", checksum="c", actual_seconds=1.0)


def _sample(platform: Platform) -> None:
    """Samples of the risk as they are after a month: a minute each for a day, and an hour each before."""
    now = int(platform.catalog.now() // 60)
    minutes = [*range(now - 30 * 1440, now - 1440, 60), *range(now - 1440, now)]
    loss = {"bytes": 1, "unproven_bytes": 0, "irrecoverable_bytes": 1, "recompute_seconds": 1.0}
    rows = [{"minute": minute, "dag_id": dag_id, **loss} for minute in minutes for dag_id in ("", "bench", "other")]
    with platform.catalog.write_transaction() as connection:
        connection.execute(insert(schema.risk_sample), rows)


@contextmanager
def temporary_platform() -> Iterator[Platform]:
    """A platform without a runner in a temporary folder, which is Airflow's home too."""
    home = Path(tempfile.mkdtemp(prefix="springline-bench-"))
    os.environ["AIRFLOW_HOME"] = str(home / "airflow")  # before anything imports Airflow
    platform = open_platform(
        Settings(home=home, cache_uri=f"file://{home}/cache", cache_capacity=1 << 60), runner=NoRunner()
    )
    try:
        yield platform
    finally:
        platform.close()
        shutil.rmtree(home)


@contextmanager
def client(platform: Platform) -> Iterator[Callable[[str], Any]]:
    """Asks the app of the plugin, which lets everybody in here, at its gate and behind it."""
    from airflow import settings as airflow_settings
    from airflow.api_fastapi.core_api.security import get_user
    from airflow.models import import_all_models
    from airflow.models.base import Base
    from fastapi.testclient import TestClient

    from springline.airflow.api.access import ReadAccess
    from springline.airflow.api.app import VERSION_PREFIX
    from springline.airflow.api.datasets import current_platform
    from springline.airflow.plugin import SpringlinePlugin

    class Everything(ReadAccess):
        def __init__(self) -> None:
            self.user = None  # type: ignore[assignment]

        def may_read_dag(self, dag_id: str) -> bool:
            return True

        def dag_change_refusal(self, dag_id: str) -> str:
            return ""

        def trigger_refusal(self, dag_id: str) -> str:
            return ""

    async def everybody(*_: Any) -> None: ...

    import_all_models()  # type: ignore[no-untyped-call]
    Base.metadata.create_all(airflow_settings.engine)  # the queue asks for the state of the DAG `persister`
    app = SpringlinePlugin.fastapi_apps[0]["app"]
    let_in = patch("springline.airflow.api.auth_middleware.get_user", everybody)
    overrides = {get_user: lambda: None, ReadAccess: Everything, current_platform: lambda: platform}
    no_streams = patch.dict(os.environ, SPRINGLINE_STREAMS_FILE=str(_empty_file(platform.settings.home)))
    with let_in, no_streams, patch.dict(app.dependency_overrides, overrides), TestClient(app) as test_client:
        yield lambda place: test_client.get(f"{VERSION_PREFIX}/{place}")


def _empty_file(home: Path) -> Path:
    """Return an empty file of declarations."""
    file = home / "streams.toml"
    file.touch()
    return file
