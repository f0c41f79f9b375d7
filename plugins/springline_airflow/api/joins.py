"""Joins over HTTP: the load of each unit, heavy keys, migrations and their reasons, and what would be done now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, BeforeValidator

from springline.airflow.api import access
from springline.airflow.api.streams import JobDep

SideName = Literal["left", "right"]
Key = Annotated[str, BeforeValidator(str)]  # has 64 bits, more than an integer in JavaScript can represent


class UnitLoad(BaseModel):
    """A possible unit of a join: whether it is in use, and how many tuples it stores of each side and in total."""

    unit: int
    used: bool
    left: int
    right: int
    stored: int


class HeavyKey(BaseModel):
    """A frequent key: how many of its tuples are stored, in all and by unit (`parts`), and how often it was probed."""

    side: SideName
    key: Key
    tuples: int
    probes: int
    parts: Mapping[int, int]


class PinnedKey(BaseModel):
    """An explicitly routed key: the share of new tuples that each unit stores, and the units probed
    (`probed_units`).
    """

    side: SideName
    key: Key
    stores: Mapping[int, float]
    probed_units: Sequence[int]


class Routing(BaseModel):
    """The routing table: its epoch, the number of explicitly routed keys of each side, and some of them (`entries`)."""

    epoch: int
    keys: Mapping[SideName, int]
    entries: Sequence[PinnedKey]


class PlannedMove(BaseModel):
    """A planned migration of tuples to another unit: about how many, at what cost, and what and why in words."""

    kind: str
    tuples: int
    cost: float
    description: str


class Migration(PlannedMove):
    """A migration in progress: a piece that is being copied (`copying`), or that waits for others."""

    piece: int
    copying: bool


class RoutingEpoch(BaseModel):
    """A past routing table: when it was created (seconds since 1970), and why."""

    created_at: float
    epoch: int
    reasons: Sequence[str]


class JoinStatus(BaseModel):
    """State of a join at its last inspection, at `observed_at` (seconds since 1970), and the job's `state`.

    `imbalance` is the greatest distance of a unit's load from the mean of the units in use, as a share of the mean;
    `max_imbalance` is the limit above which keys are moved. `messages_per_tuple` is the number of messages sent per
    tuple; null while there are no tuples. `reasons` explain what was decided then; `next_reasons` and `planned_moves`
    are what would be done next.
    """

    state: str
    observed_at: float
    strategy: str
    units: int
    requested_units: int
    loads: Sequence[UnitLoad]
    imbalance: float
    max_imbalance: float
    heavy_keys: Sequence[HeavyKey]
    routing: Routing
    migrations: Sequence[Migration]
    messages_per_tuple: float | None
    reasons: Sequence[str]
    next_reasons: Sequence[str]
    planned_moves: Sequence[PlannedMove]
    history: Sequence[RoutingEpoch]


router = APIRouter(tags=["streams"], prefix="/streams/{job}/join", dependencies=[Depends(access.require_job_read)])


@router.get("")
def join(
    job: JobDep,
    limit: Annotated[int, Query(ge=0, le=10_000, description="Maximum number of explicitly routed keys")] = 20,
) -> JoinStatus:
    """Return each unit's load, the heavy keys and their units, migrations with reasons, and what would be done now."""
    explanation = job.explanation
    return JoinStatus(
        **{
            **explanation,
            "state": job.read_status().state,
            "loads": _loads(explanation),
            "routing": _routing(explanation, limit),
        }
    )


def _loads(explanation: Mapping[str, Any]) -> list[UnitLoad]:
    used = explanation["used"]
    return [
        UnitLoad(unit=int(unit), used=int(unit) in used, left=left, right=right, stored=left + right)
        for unit, (left, right) in explanation["loads"].items()
    ]


def _routing(explanation: Mapping[str, Any], limit: int) -> Routing:
    entries = explanation["entries"]
    counts = Counter(entry["side"] for entry in entries)
    return Routing(
        epoch=explanation["epoch"], keys={side: counts[side] for side in ("left", "right")}, entries=entries[:limit]
    )
