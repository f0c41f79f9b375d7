"""Ways of placing keys on units, by name, behind one interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from springline.spark_jobs.streaming.join.routing.errors import BadRouting
from springline.spark_jobs.streaming.join.routing.loads import Strategy
from springline.spark_jobs.streaming.join.routing.strategies.costs import PAPER_WEIGHTS, Costs
from springline.spark_jobs.streaming.join.routing.strategies.djb import DJB
from springline.spark_jobs.streaming.join.routing.strategies.heavy_split import HeavySplit
from springline.spark_jobs.streaming.join.routing.strategies.static import Hash, Subgroups, TwoSides

THETA = 0.05
PAIR, TRIED = 0.25, 0.05  # the work of a result of two columns, and of a pair that is tried, beside a tuple's

STRATEGIES: Mapping[str, Callable[[float, Costs], Strategy]] = {
    "heavy-split-work": lambda theta, costs: HeavySplit(theta, costs, "heavy-split-work", PAIR, TRIED),
    "heavy-split": HeavySplit,
    "djb": DJB,
    "hash": lambda theta, costs: Hash(),
    "jb6": lambda theta, costs: Subgroups(),
    "jb": lambda theta, costs: TwoSides(),
}


def strategy_of(name: str, theta: float = THETA, costs: Costs = PAPER_WEIGHTS[0]) -> Strategy:
    """The strategy of that name; raises `BadRouting`. `theta` is the imbalance that is borne."""
    if name not in STRATEGIES:
        raise BadRouting(f"strategy {name!r} is not known; known: {', '.join(STRATEGIES)}")
    if not 0 <= theta < 1:
        raise BadRouting(f"an imbalance of {theta}: give one from 0 to below 1")
    return STRATEGIES[name](theta, costs)
