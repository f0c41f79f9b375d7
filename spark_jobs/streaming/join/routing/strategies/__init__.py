"""Ways of placing keys on units, by name, behind one interface: the entry points `springline.join_strategies`.

An entry point leads to `make(theta, costs) -> Strategy`: `theta` is the imbalance that is borne, a share of the mean
load; `costs` weigh what a migration takes.
"""

from __future__ import annotations

from springline.persistence.extensions import Extensions
from springline.spark_jobs.streaming.join.errors import InvalidRoutingError
from springline.spark_jobs.streaming.join.routing.loads import Strategy
from springline.spark_jobs.streaming.join.routing.strategies.costs import PAPER_WEIGHTS, Costs

STRATEGIES = Extensions("springline.join_strategies", "join strategy")
USUAL_STRATEGY = "heavy-split-work"
THETA = 0.05


def strategy_of(name: str, theta: float = THETA, costs: Costs = PAPER_WEIGHTS[0]) -> Strategy:
    """The strategy of that name; raises `ExtensionError`, and `InvalidRoutingError` where `theta` is none."""
    if not 0 <= theta < 1:
        raise InvalidRoutingError(f"an imbalance of {theta}: give one from 0 to below 1")
    strategy: Strategy = STRATEGIES.load(name)(theta, costs)
    return strategy
