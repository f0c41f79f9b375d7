"""What a loss of the cache would cost, dataset by dataset, what is gone for good first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from springline.persistence.catalog.cache_loss import CacheLoss
from springline.persistence.model.cost_model import Costs
from springline.persistence.model.lineage import Lineage


@dataclass(frozen=True, slots=True)
class Exposed:
    """A generation whose only bytes are in the cache.

    `why_gone` is empty if it could be made again, `why_unproven` if the operations that would are seen to repeat.
    `believed`: the catalog says that it has a copy in the under-store, which does not answer.
    """

    path: str
    generation: int
    bytes: int
    seconds: float | None  # to run its operation again; None: gone for good, or never measured
    why_gone: Sequence[str]
    why_unproven: Sequence[str]
    waits: bool  # in the queue
    believed: bool
    dag_id: str
    run_id: str
    task_id: str


@dataclass(frozen=True, slots=True)
class Risks:
    """What a loss of the whole cache now would cost; the seconds are those of all recomputing, one after another.

    Recomputable bytes come back by operations that were seen to repeat; unproven ones only if one keeps its word.

    `under_store_away`: why the copies in the under-store count for nothing; empty if it answers.
    """

    under_store_away: str
    bytes: int
    recomputable_bytes: int
    unproven_bytes: int
    recompute_seconds: float
    irrecoverable_bytes: int
    datasets: int
    exposed: Sequence[Exposed]


@dataclass(frozen=True, slots=True)
class Weighed:
    """The risk of what one may read, added up; `worst`: by key, the irrecoverable, the unproven, then the largest."""

    bytes: int
    unproven_bytes: int
    irrecoverable_bytes: int
    recompute_seconds: float
    datasets: int
    worst: Sequence[int]

    def named(self, loss: CacheLoss) -> list[int]:
        """What has to be looked up to tell of the worst by name: they, and what stands in their way; each once."""
        return list(
            dict.fromkeys(
                (*self.worst, *(first for key in self.worst for first in (*loss.causes[key], *loss.doubts[key])))
            )
        )


def weigh(loss: CacheLoss, costs: Costs, reads: Callable[[str], bool], *, most: int) -> Weighed:
    """Add up what was made by those DAGs that `reads` lets through, and choose the worst, so many at most."""
    rows, causes, doubts = loss.rows, loss.causes, loss.doubts
    mine = [key for key in loss.exposed if reads(rows[key].dag_id)]
    again = (loss.seconds(key, costs) for key in loss.again(mine))
    return Weighed(
        bytes=sum(rows[key].bytes for key in mine),
        unproven_bytes=sum(rows[key].bytes for key in mine if doubts[key]),
        irrecoverable_bytes=sum(rows[key].bytes for key in mine if causes[key]),
        recompute_seconds=sum(seconds for seconds in again if seconds),
        datasets=len(mine),
        worst=nsmallest(most, mine, key=lambda key: (not causes[key], not doubts[key], -rows[key].bytes, key)),
    )


def risks_of(weighed: Weighed, loss: CacheLoss, costs: Costs, lineage: Lineage, away: str) -> Risks:
    """The risk in words; `lineage` holds what `weighed` names, in that order."""
    refs = dict(zip(weighed.named(loss), lineage.datasets, strict=True))
    exposed = []
    for key in weighed.worst:
        dataset = lineage.datasets[refs[key]]
        why = [lineage.why_not_repeatable(refs[cause]) for cause in loss.causes[key]]
        doubts = [lineage.why_not_proven(refs[doubt]) for doubt in loss.doubts[key]]
        exposed.append(
            Exposed(
                path=dataset.ref.path,
                generation=dataset.ref.generation,
                bytes=dataset.bytes,
                seconds=None if why else loss.seconds(key, costs),
                why_gone=[reason for reason in why if reason],  # empty: it was made repeatable meanwhile
                why_unproven=[reason for reason in doubts if reason],
                waits=dataset.wanted,
                believed=dataset.persisted,
                dag_id=dataset.origin.dag_id,
                run_id=dataset.origin.run_id,
                task_id=dataset.origin.task_id,
            )
        )
    return Risks(
        under_store_away=away,
        bytes=weighed.bytes,
        recomputable_bytes=weighed.bytes - weighed.irrecoverable_bytes - weighed.unproven_bytes,
        unproven_bytes=weighed.unproven_bytes,
        recompute_seconds=weighed.recompute_seconds,
        irrecoverable_bytes=weighed.irrecoverable_bytes,
        datasets=weighed.datasets,
        exposed=exposed,
    )
