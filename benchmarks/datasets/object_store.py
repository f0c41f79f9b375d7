"""The paper's workload with S3 as the under-store: the strategies in turn, a wiped cache, and what it costs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.datasets.trial import Conditions, Trial
from benchmarks.datasets.trials import IN_TURN, MB, bench, printed, row_of
from benchmarks.report import Goal, Report
from springline.persistence.model.dataset import Strategy
from springline.services.packages.jars import Jars
from springline.services.registry import make_servers
from springline.services.scratch_home import scratch_settings
from springline.services.servers.s3 import BUCKET
from springline.services.settings import ServiceSettings
from springline.services.supervisor import Supervisor

_PATIENCE = 120.0  # seconds for the server to be ready
_WIPE_AT = 0.6  # of the run without a fault


def run(size: str) -> Report:
    """One batch over a link of 50 MB/s (quick: a small one over 10 MB/s); each strategy in turn, then the wipe."""
    batch, link, cache = (210, 50, 3_000) if size == "full" else (10, 10, 45)
    clients = {"spark.driver.extraClassPath": str(Jars(ServiceSettings()).folder("spark-s3") / "*")}
    with s3_server() as uri, bench(batch=batch * MB, batches=1, conf=clients) as trials:
        trials.warm_up()
        in_turn = [Conditions(s, 1, link * MB, cache * MB, under=uri.format(prefix=s)) for s in IN_TURN]
        ran = [trials.tried(conditions) for conditions in in_turn]
        both = ran[IN_TURN.index(Strategy.ASYNC_AND_SYNC)]
        wipe = replace(both.conditions, wipe_at=_WIPE_AT * both.run_seconds, under=uri.format(prefix="wiped"))
        wiped = trials.tried(wipe)
    for path, digest in wiped.digests.items():
        if not path.endswith("/rotate") and digest != both.digests[path]:
            raise AssertionError(f"{path} differs from the run without a fault")
    rows = [row_of("run", trial) for trial in ran] + [row_of("cache wiped", wiped)]
    remarks = [
        f"Batches of {batch} MB of text as CSV (TPC-H LINEITEM), parquet without compression, Spark local[2]; "
        f"cache of {cache} MB. The server (S3Mock) runs on the same two cores.",
        f"cache wiped: after {_WIPE_AT:.0%} of the run without a fault. What was persisted is read from S3, the rest "
        "is recomputed, and the digests are those of that run.",
    ]
    return Report("object_store", size, rows, _goals(ran, wiped), remarks, printed(rows))


@contextmanager
def s3_server() -> Iterator[str]:
    """A server of S3's protocol of the benchmark's own; yields the URI of a {prefix} with its options."""
    home = Path(tempfile.mkdtemp(prefix="springline-bench-", dir=Path.cwd()))
    settings = scratch_settings(home)
    supervisor = Supervisor(home)
    try:
        (server,) = make_servers(["s3"], settings)
        supervisor.up([server], _PATIENCE)
        yield f"s3://{BUCKET}/{{prefix}}?endpoint_url={server.address}&key=bench&secret=bench"
    finally:
        supervisor.down("s3", 5)
        shutil.rmtree(home, ignore_errors=True)


def _goals(ran: list[Trial], wiped: Trial) -> list[Goal]:
    seconds = {trial.conditions.strategy: trial.run_seconds for trial in ran}
    only, cache_through = seconds[Strategy.CACHE_ONLY], seconds[Strategy.CACHE_THROUGH]
    ratio = seconds[Strategy.ASYNC_STORE] / only
    below, below_both = (1 - seconds[s] / cache_through for s in (Strategy.ASYNC_STORE, Strategy.ASYNC_AND_SYNC))
    lost = len(wiped.lost_for_good)
    return [
        Goal("Async-Store against cache_only, run time", round(ratio, 3), "at most 1.3", ratio <= 1.3),
        Goal("Async-Store below cache_through", round(below, 3), "at least 0.41", below >= 0.41),
        Goal("Async&Sync below cache_through", round(below_both, 3), "at least 0.26", below_both >= 0.26),
        Goal("lost for good with the cache under Async&Sync", lost, "0", lost == 0),
    ]
