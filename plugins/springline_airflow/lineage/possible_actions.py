"""The actions that the state of a generation allows now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from springline.persistence.actions import DatasetAction, decide_action, decide_recovery
from springline.persistence.model.cost_model import CostModel
from springline.persistence.model.dataset import Dataset
from springline.persistence.model.lineage import Lineage


def possible_actions(
    dataset: Dataset, lineage: Lineage, costs: CostModel, *, obstacles: tuple[str, ...], unavailable_reason: str = ""
) -> list[str]:
    """Return the actions that are possible, as far as that is known without asking the readers of the generation.

    `obstacles`: why it could not be recomputed after a loss of the cache. `unavailable_reason`: why the under-store
    does not respond.
    """
    decisions = [
        decide_action(dataset, action, recompute_obstacles=obstacles, eviction_blocker=unavailable_reason)
        for action in DatasetAction
    ]
    recovery = ["recover"] if decide_recovery(dataset.ref, lineage, costs).allowed else []
    return [*recovery, *(decision.action.value for decision in decisions if decision.allowed)]


def permitted_actions(actions: Sequence[str], refused: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return those of the possible actions that the user may perform, and those that not, with the reason."""
    return (
        [action for action in actions if action not in refused],
        {action: refused[action] for action in actions if action in refused},
    )
