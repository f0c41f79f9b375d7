"""Ours beside Alluxio's own write types on the same servers: run time, what is at risk, what a dead worker costs."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import Any, cast

from benchmarks.datasets.cluster import Cluster, cluster
from benchmarks.datasets.contest import Recipe, Side, Strike, Trial, TrialResult, recipes_of
from benchmarks.datasets.ours import Springline
from benchmarks.datasets.peers import ASYNC_THROUGH, WRITE_TYPES, WriteType
from benchmarks.datasets.processes import spark
from benchmarks.datasets.trials import MB
from benchmarks.report import Goal, Report
from springline.persistence.model.dataset import Strategy
from springline.services.packages.jars import Jars
from springline.services.servers.spark_connect import ALLUXIO_CLIENT
from springline.spark_jobs.runner import SparkRunner

_SEED = 20130108
_MEMORY = 1 << 30  # bytes of Alluxio's worker
_PERSISTERS = 2
_SECONDS = 2  # that the link is measured for
_OURS = (Strategy.ASYNC_STORE, Strategy.ASYNC_AND_SYNC)
_SIDES = (*_OURS, *WRITE_TYPES)
_COMPARED = (*_OURS, ASYNC_THROUGH)
_RANDOM = "bench.rotate"  # its rows differ from run to run
_LEAST = 1e-9

Make = Callable[[str], AbstractContextManager[Side]]


def run(size: str) -> Report:
    """Every side in turn without a fault three times, then with the worker killed at three moments.

    The moments are random, one in each third of the run. Quick: once, and one moment for those that goals compare.
    """
    batch, link, rounds, moments = (28, 15, 3, 3) if size == "full" else (4, 8, 1, 1)
    shares = [(number + random.Random(_SEED + number).random()) / moments for number in range(moments)]
    with cluster(link=link * MB, memory=_MEMORY) as servers, _spark(servers, batch * MB) as (runner, folder):

        def make(name: str) -> AbstractContextManager[Side]:
            if name in WRITE_TYPES:
                return cast("AbstractContextManager[Side]", WriteType(servers, runner, name))
            ours = Springline(servers, runner, Strategy(name), folder / "run", persisters=_PERSISTERS)
            return cast("AbstractContextManager[Side]", ours)

        recipes = recipes_of(runner.registry)
        for name in (ASYNC_THROUGH, Strategy.ASYNC_AND_SYNC) if size == "full" else (ASYNC_THROUGH,):
            _tried(make, name, recipes, "warm-up")
        direct, through_alluxio = servers.write_rates(_SECONDS * link * MB)
        clean = [_tried(make, name, recipes, "no fault") for turn in range(rounds) for name in _in_turn(turn)]
        usual = {name: median(result.run_seconds for result in clean if result.side == name) for name in _SIDES}
        struck = [
            _tried(make, name, recipes, f"killed at {share:.0%}", _strike(servers, share * usual[name]))
            for turn, share in enumerate(shares)
            for name in _in_turn(turn)
            if size == "full" or name in _COMPARED
        ]
    _check_rows(clean + struck)
    rows = [_clean_row(result) for result in clean] + [_struck_row(result) for result in struck]
    both, ratio = _run_time(clean, Strategy.ASYNC_AND_SYNC), _run_time(clean, ASYNC_THROUGH)
    remarks = [
        f"A batch of {batch} MB of text. One DataNode, replication 1, that takes {link} MB/s from whoever writes: "
        f"alone, HDFS's client that we use got {direct / MB:.1f} MB/s through, Alluxio's worker "
        f"{through_alluxio / MB:.1f}. One worker of Alluxio, its root mounted on the same HDFS. "
        f"{_PERSISTERS} persisters beside the job; Alluxio's "
        f"job service has its usual threads.",
        "Spark local[2], one JVM for all trials: between two of them its file systems are closed, and opened with the "
        "next write type. Warm-up trials are not counted.",
        f"Seeds {_SEED} to {_SEED + moments - 1}: Alluxio's worker was killed with -9 and its memory emptied after "
        f"{', '.join(f'{share:.0%}' for share in shares)} of the side's run without a fault, and started again.",
        "At risk: bytes of finished outputs, until Alluxio's master, or our catalog, has recorded them as persisted; "
        "looked at every 0.25 s until all is persisted, under MUST_CACHE until the run ends. For good: of these, what "
        "nothing could make again.",
        "Lost: finished outputs of which bytes were nowhere. load and rotate are not to be run twice, so they are lost "
        "for good with all that was made from them; that all runs can end, they are made again nevertheless.",
        "Recovery: from the worker's return until every lost output is there again. Alluxio has an ideal operator, who "
        "knows what was lost and runs just these operations; we look for it and bring it back by ourselves.",
        f"Async&Sync took {both / ratio:.2f} times the run time of ASYNC_THROUGH.",
    ]
    return Report("alluxio", size, rows, _goals(clean, struck), remarks, rows)


def _in_turn(turn: int) -> Sequence[str]:
    """All sides, each time beginning with another one, and every second time the other way round."""
    names = [str(name) for name in _SIDES]
    shifted = names[turn % len(names) :] + names[: turn % len(names)]
    return shifted[::-1] if turn % 2 else shifted


def _tried(
    make: Make, name: str, recipes: Mapping[str, Recipe], what: str, strike: Strike | None = None
) -> TrialResult:
    """One trial, with a line of progress."""
    with make(name) as side:
        result = Trial(side, recipes, strike).run()
    line = f"{name}, {what}: {result.run_seconds:.1f} s"
    if result.struck_at is not None:
        line += (
            f", {len(result.lost)} lost, {len(result.lost_for_good)} for good, back in {result.recovery_seconds:.1f} s"
        )
    print(line, file=sys.stderr, flush=True)
    return result


def _strike(servers: Cluster, at: float) -> Strike:
    return Strike(at, servers.kill_worker, servers.start_worker)


def _spark(servers: Cluster, batch: int) -> AbstractContextManager[tuple[SparkRunner, Path]]:
    """A Spark of this process's own that knows Alluxio, and a folder with a landing file; both go afterwards."""
    conf = {
        "spark.log.level": "OFF",  # what fails under a strike is in the trial's result
        "spark.driver.extraClassPath": str(Jars(servers.settings).folder("spark") / "*"),
        **ALLUXIO_CLIENT,
    }
    return spark(batch=batch, batches=1, memory="1g", conf=conf)


def _check_rows(all_results: Sequence[TrialResult]) -> None:
    """Every trial made the same rows, where they are not random."""
    for result in all_results:
        for name, digest in result.digests.items():
            if name != _RANDOM and digest != all_results[0].digests[name]:
                raise AssertionError(f"{name} under {result.side} differs from that under {all_results[0].side}")


def _clean_row(result: TrialResult) -> dict[str, Any]:
    return {
        "what": "no fault",
        "side": result.side,
        "run_s": round(result.run_seconds, 2),
        "drain_s": None if result.drain_seconds is None else round(result.drain_seconds, 2),
        "at_risk_MB_s": round(result.at_risk / MB, 1),
        "for_good_MB_s": round(result.irrecoverable_at_risk / MB, 1),
        "most_at_risk_MB": round(result.most_at_risk / MB, 1),
    }


def _struck_row(result: TrialResult) -> dict[str, Any]:
    return {
        "what": "worker killed",
        "side": result.side,
        "run_s": round(result.run_seconds, 2),
        "killed_at_s": round(result.struck_at or 0.0, 2),
        "away_s": round(result.away_seconds, 1),
        "of": result.finished,
        "lost": len(result.lost),
        "lost_for_good": len(result.lost_for_good),
        "recovery_s": round(result.recovery_seconds, 2),
    }


def _run_time(clean: Sequence[TrialResult], side: str) -> float:
    return median(result.run_seconds for result in clean if result.side == side)


def _at_risk(clean: Sequence[TrialResult], side: str) -> float:
    return median(result.at_risk for result in clean if result.side == side)


def _recovery(struck: Sequence[TrialResult], side: str) -> float:
    return sum(result.recovery_seconds for result in struck if result.side == side)


def _goals(clean: Sequence[TrialResult], struck: Sequence[TrialResult]) -> list[Goal]:
    goals = []
    for name, strategy_title in zip(_OURS, ("Async-Store", "Async&Sync"), strict=True):
        risk = _at_risk(clean, name) / max(_at_risk(clean, ASYNC_THROUGH), _LEAST)
        back = _recovery(struck, name) / max(_recovery(struck, ASYNC_THROUGH), _LEAST)
        goals += [
            Goal(f"{strategy_title} against ASYNC_THROUGH, byte-seconds at risk", round(risk, 3), "below 1", risk < 1),
            Goal(f"{strategy_title} against ASYNC_THROUGH, recovery, all moments", round(back, 3), "below 1", back < 1),
        ]
    ratio = _run_time(clean, Strategy.ASYNC_STORE) / _run_time(clean, ASYNC_THROUGH)
    for_good = sum(len(result.lost_for_good) for result in struck if result.side == Strategy.ASYNC_AND_SYNC)
    return [
        *goals,
        Goal("Async-Store against ASYNC_THROUGH, run time", round(ratio, 3), "at most 1.05", ratio <= 1.05),
        Goal("lost for good under Async&Sync, all moments", for_good, "0", for_good == 0),
    ]
