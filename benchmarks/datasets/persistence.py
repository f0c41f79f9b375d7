"""The four strategies on the paper's workload, in turn in one run: time, bytes, memory, what eviction loses."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from benchmarks.datasets.trial import Conditions, Trial
from benchmarks.datasets.trials import IN_TURN, MB, bench, printed, row_of
from benchmarks.report import Goal, Report
from springline.persistence.model.dataset import Strategy


def run(size: str) -> Report:
    """Three batches over a link of 50 MB/s (quick: one small batch over 10 MB/s); each strategy in turn."""
    batch, batches, link, cache = (210, 3, 50, 3_000) if size == "full" else (10, 1, 10, 45)
    in_turn = [Conditions(s, batches, link * MB, cache * MB) for s in IN_TURN]
    with bench(batch=batch * MB, batches=batches) as trials:
        trials.warm_up()
        ran = [trials.tried(conditions) for conditions in in_turn]
        # The two whose ratio is nearest to the noise twice more, each time the other way round.
        ran += [trials.tried(in_turn[which]) for which in (1, 0, 0, 1)]
        sending_operations = trials.tried(replace(in_turn[2], batches=1, operations=True))
    rows = [row_of("run", trial) for trial in ran] + [row_of("with operations", sending_operations)]
    remarks = [
        f"Batches of {batch} MB of text as CSV (TPC-H LINEITEM), parquet without compression, Spark local[2]; "
        f"cache of {cache} MB.",
        "The link is one for all processes and passes its bytes one after another; copies are synced to disk.",
        "Only 'with operations' may send operations: on one machine the storage side has no cores of its own.",
    ]
    return Report("persistence", size, rows, _goals(ran, link * MB), remarks, printed(rows))


def _goals(ran: list[Trial], link: float) -> list[Goal]:
    def seconds(strategy: Strategy) -> float:
        return median(t.run_seconds for t in ran if t.conditions.strategy is strategy)

    only, cache_through = seconds(Strategy.CACHE_ONLY), seconds(Strategy.CACHE_THROUGH)
    asynchronous, both = seconds(Strategy.ASYNC_STORE), seconds(Strategy.ASYNC_AND_SYNC)
    needed = median(t.synchronous_bytes for t in ran if t.conditions.strategy is Strategy.ASYNC_AND_SYNC) / link
    evicted = sum(t.lost_to_eviction for t in ran if t.conditions.strategy is not Strategy.CACHE_ONLY)
    ratio, below, below_both = asynchronous / only, 1 - asynchronous / cache_through, 1 - both / cache_through
    beside = both / (asynchronous + needed)
    return [
        Goal("Async-Store against cache_only, run time", round(ratio, 3), "at most 1.05", ratio <= 1.05),
        Goal("Async-Store below cache_through", round(below, 3), "at least 0.41", below >= 0.41),
        Goal("Async&Sync below cache_through", round(below_both, 3), "at least 0.26", below_both >= 0.26),
        Goal("Async&Sync against Async-Store plus the link's time", round(beside, 3), "at most 1.05", beside <= 1.05),
        Goal("lost to eviction under Async-Store and Async&Sync", evicted, "0", evicted == 0),
    ]
