"""The head of the queue, planned for a user: what he may not read has no name in it, but keeps its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from springline.airflow.api.access import ReadAccess
from springline.airflow.lineage.access_filter import redact_hidden
from springline.airflow.lineage.queue import queue_place
from springline.persistence.decisions.persist_status import QueuePlace
from springline.persistence.decisions.queue_plan import PlannedTransfer, plan_queue
from springline.persistence.model.cost_model import CostModel
from springline.persistence.model.dataset import Ref
from springline.persistence.model.lineage import Lineage
from springline.persistence.platform import Platform
from springline.persistence.policies import load_policy

_HEAD = 50  # generations that are planned to say where one stands
_COUNTED = 500  # those behind them have the position that their stored scores give them


@dataclass(frozen=True, slots=True)
class ReadableQueue:
    """Planned transfers in the order of the policy in use, and what they were planned with, at the time `now`.

    `counted`: the generations after them, by their stored scores; they may be ones that the user may not read.
    """

    transfers: Sequence[PlannedTransfer]
    counted: Sequence[Ref]
    lineage: Lineage
    costs: CostModel
    now: float

    def places(self) -> Mapping[Ref, QueuePlace]:
        """Return the place of each generation that was planned, or counted."""
        places = {ref: QueuePlace(position) for position, ref in enumerate(self.counted, len(self.transfers) + 1)}
        return places | {each.ref: queue_place(each) for each in self.transfers}


def load_readable_queue(platform: Platform, read_access: ReadAccess, head: int = _HEAD) -> ReadableQueue:
    """Plan the first `head` generations of the queue, which is what the persisters do next."""
    catalog = platform.catalog
    claimable = platform.claims.list_claimable(max(head, _COUNTED))
    refs = frozenset(claimable[:head])
    full_lineage = catalog.lineage_around(refs)
    lineage = redact_hidden(full_lineage, read_access.may_read)
    waiting = [
        readable_ref for ref, readable_ref in zip(full_lineage.datasets, lineage.datasets, strict=True) if ref in refs
    ]
    costs, now = catalog.load_cost_model(full_lineage), catalog.now()
    policy, small_bytes = load_policy(platform.settings, ""), platform.settings.min_operation_bytes
    transfers = plan_queue(waiting, lineage, costs, policy, small_bytes=small_bytes, now=now)
    return ReadableQueue(transfers, claimable[head:], lineage, costs, now)
