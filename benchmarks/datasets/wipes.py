"""The whole cache deleted in the middle of the workload, at random moments, under each strategy."""

from __future__ import annotations

import random
from dataclasses import replace

from benchmarks.datasets.trial import Conditions, Trial
from benchmarks.datasets.trials import IN_TURN, MB, Bench, bench, printed, row_of
from benchmarks.report import Goal, Report
from springline.persistence.model.dataset import Strategy

_SEED = 20130105


def run(size: str) -> Report:
    """Five moments, uniform over the run without a fault (quick: one), the same shares for every strategy."""
    batch, link, moments = (10, 10, 5) if size == "full" else (4, 4, 1)
    base = Conditions(Strategy.CACHE_ONLY, 1, link * MB, 1_000 * MB)
    shares = [random.Random(_SEED + number).random() for number in range(moments)]
    with bench(batch=batch * MB, batches=1) as trials:
        for strategy in IN_TURN:  # until Spark is warm, runs get quicker, and a wipe would come after the end
            trials.tried(replace(base, strategy=strategy))
        clean = {s: trials.tried(replace(base, strategy=s)) for s in IN_TURN}
        wiped = [_wiped(trials, clean[s], share) for share in shares for s in IN_TURN]
    rows = [row_of("no fault", trial) for trial in clean.values()] + [row_of("cache wiped", trial) for trial in wiped]
    remarks = [
        f"Batches of {batch} MB over {link} MB/s; seeds {_SEED} to {_SEED + moments - 1}: wiped after "
        f"{', '.join(f'{share:.0%}' for share in shares)} of the run without a fault.",
        "lost: generations whose only bytes were in the cache at the wipe; for good: nothing could make them again.",
        "Every run that ended gave the digests of the run without a fault (rotate, which is random, left out).",
    ]
    return Report("wipes", size, rows, _goals(wiped), remarks, printed(rows))


def _wiped(trials: Bench, clean: Trial, share: float) -> Trial:
    trial = trials.tried(replace(clean.conditions, wipe_at=share * clean.run_seconds))
    for path, digest in trial.digests.items():
        if not path.endswith("/rotate") and digest != clean.digests[path]:
            raise AssertionError(f"{path} differs from the run without a fault")
    return trial


def _goals(wiped: list[Trial]) -> list[Goal]:
    lost_count = sum(len(t.lost_for_good) for t in wiped if t.conditions.strategy is Strategy.ASYNC_AND_SYNC)
    ended = sum(t.batches_ended for t in wiped if t.conditions.strategy is Strategy.ASYNC_AND_SYNC)
    count = sum(t.conditions.strategy is Strategy.ASYNC_AND_SYNC for t in wiped)
    lost = sum(t.lost for t in wiped if t.conditions.strategy is Strategy.CACHE_THROUGH)
    return [
        Goal("lost for good under Async&Sync, all wipes", lost_count, "0", lost_count == 0),
        Goal("runs that ended right under Async&Sync", f"{ended} of {count}", "all", ended == count),
        Goal("lost under cache_through", lost, "0", lost == 0),
    ]
