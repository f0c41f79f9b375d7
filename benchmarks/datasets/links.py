"""The four strategies over a slow and a fast link."""

from __future__ import annotations

from benchmarks.datasets.trial import Conditions
from benchmarks.datasets.trials import IN_TURN, MB, bench, printed, row_of
from benchmarks.report import Goal, Report
from springline.persistence.model.dataset import Strategy


def run(size: str) -> Report:
    """One batch over 10 and 200 MB/s (quick: a small one over 2 and 40)."""
    batch, links, cache = (210, (10, 200), 2_000) if size == "full" else (5, (2, 40), 45)
    with bench(batch=batch * MB, batches=1) as trials:
        trials.warm_up()
        ran = [trials.tried(Conditions(s, 1, link * MB, cache * MB)) for link in links for s in IN_TURN]
    rows = [row_of("run", trial) for trial in ran]
    goals = []
    for link in links:
        took = {t.conditions.strategy: t.run_seconds for t in ran if t.conditions.bandwidth == link * MB}
        ratio = round(took[Strategy.ASYNC_STORE] / took[Strategy.CACHE_ONLY], 3)
        goals.append(Goal(f"Async-Store against cache_only over {link} MB/s", ratio, "at most 1.05", ratio <= 1.05))
    return Report("links", size, rows, goals, [f"Batches of {batch} MB; cache of {cache} MB."], printed(rows))
