"""The join `pairs` as it is declared, and what it reports when a key is split over its units and a piece moves."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.join.routing.controller import RebalanceConfig
from tests.support.joins.join_simulation import JoinSimulation, join_of

PAIRS = """
[pairs]
kind = "join"
on = "l.k = r.k"
parallelism = 2
max_units = 4
[pairs.left]
topic = "left"
fields = [["id", "int"], ["k", "int"], ["v", "int"]]
[pairs.right]
topic = "right"
fields = [["id", "int"], ["k", "int"], ["v", "int"]]
"""
KEY = 2**63 - 1
EXPLAINED: dict[str, Any] = {
    "epoch": 5, "strategy": "heavy-split", "units": 2, "requested_units": 3, "used": [0, 1],
    "loads": {"0": [60, 40], "1": [20, 30], "2": [0, 0]}, "imbalance": 1 / 3, "max_imbalance": 0.05,
    "heavy_keys": [{"side": "left", "key": KEY, "tuples": 30, "probes": 7, "parts": {"0": 20, "1": 10},
                    "share": 0.4, "is_heavy": True, "placement": "split"}],
    "uncounted_at_most": [0, 0], "moving_tuples": 12, "moved_tuples": 3,
    "entries": [
        {"side": "left", "key": KEY, "stores": {"0": 0.5, "1": 0.5}, "probed_units": [0, 1]},
        {"side": "right", "key": -2, "stores": {"1": 1.0}, "probed_units": [1]},
    ],
    "migrations": [
        {"piece": 4, "copying": True, "tuples": 9, "kind": "bucket", "cost": 0.125,
         "description": "from unit 0 to unit 1"}
    ],
    "messages_per_tuple": 1.5, "next_reasons": ["wait for 1 migrations"],
    "planned_moves": [{"kind": "H1", "tuples": 5, "cost": 0.5, "description": "key 7 from unit 0 to unit 1"}],
    "observed_at": 1_700_000_000.0, "reasons": ["the most loaded unit will have 1.33 times the mean"],
    "history": [{"created_at": 1_600_000_000.0, "epoch": 5, "reasons": ["piece 3 is copied: cut over to it"]}],
}  # fmt: skip


def widened(folder: JobFolder, scratch: Path, rows: int, *, max_imbalance: float) -> JoinSimulation:
    """The join after so many rows a side, half of them of one key, and after it went from two units to three."""
    simulation = JoinSimulation(
        join_of("l.k = r.k", RebalanceConfig(2, max_imbalance=max_imbalance, min_tuples=1)), scratch, random.Random(3)
    )
    simulation.folder = folder
    simulation.start()
    for topic in ("left", "right"):
        simulation.feed(topic, [(number, 1 if number % 2 else number, 0) for number in range(rows)], max(rows // 30, 3))
    simulation.want_units(3)
    simulation.finish()
    simulation.settle()
    simulation.controller.rebalance()
    return simulation
