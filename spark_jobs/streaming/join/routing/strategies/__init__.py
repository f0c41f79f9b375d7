"""Placement strategies by name, behind one interface: the entry points `springline.join_strategies`.

An entry point refers to `make(theta, costs) -> PlacementStrategy`: `theta` is the tolerated imbalance, a share of the
mean load; `costs` are the weights of a migration's cost.
"""

from __future__ import annotations

from springline.persistence.extensions import Extensions
from springline.spark_jobs.streaming.join.errors import InvalidRoutingError
from springline.spark_jobs.streaming.join.routing.loads import PlacementStrategy
from springline.spark_jobs.streaming.join.routing.strategies.costs import PAPER_WEIGHTS, CostWeights

STRATEGIES = Extensions("springline.join_strategies", "join strategy")
DEFAULT_STRATEGY = "heavy-split-work"
DEFAULT_THETA = 0.05


def strategy_of(name: str, theta: float = DEFAULT_THETA, costs: CostWeights = PAPER_WEIGHTS[0]) -> PlacementStrategy:
    """Return the strategy of a name; raises `ExtensionError`, and `InvalidRoutingError` if `theta` is out of range."""
    if not 0 <= theta < 1:
        raise InvalidRoutingError(f"max_imbalance = {theta}: expected a number from 0 to below 1")
    strategy: PlacementStrategy = STRATEGIES.load(name)(theta, costs)
    return strategy
