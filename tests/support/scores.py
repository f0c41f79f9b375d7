"""Scores of the installed policies, with the weights and the fault rate of the default settings."""

from springline.persistence.decisions.priority import Policy, Score
from springline.persistence.model.cost_model import CostModel, Measurement
from springline.persistence.model.lineage import Lineage
from springline.persistence.policies import load_policy
from springline.persistence.settings import Settings
from tests.support.datasets.lineages import ref

LINK = CostModel([Measurement(1_000_000, 0.02)])  # 50 MB/s


def policy(name: str) -> Policy:
    """The installed policy of this name."""
    return load_policy(Settings(policy_weights=(-4.0, -2.0, 1.0, 0.1), mean_fault_seconds=7 * 86400), name)  # type: ignore[call-arg]


def score(name: str, dataset: str, lineage: Lineage) -> Score:
    """The score of one dataset at time 100."""
    return policy(name).score(ref(dataset), lineage, LINK, 100.0)


def order(name: str, lineage: Lineage, *datasets: str) -> list[str]:
    """Those datasets, soonest first."""
    return sorted(datasets, key=lambda d: -score(name, d, lineage).value)
