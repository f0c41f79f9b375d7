"""Joins over HTTP: what each unit holds, which keys are heavy, what moves and why, what would be done now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, BeforeValidator

from springline.airflow.api import access
from springline.airflow.api.streams import FoundDep

Side = Literal["left", "right"]
Key = Annotated[str, BeforeValidator(str)]  # of 64 bits, which are more than a number has in JavaScript


class Load(BaseModel):
    """A unit that there can be, whether it is in use, and how many tuples it holds: of each side, and of both."""

    unit: int
    used: bool
    left: int
    right: int
    stored: int


class HeavyKey(BaseModel):
    """A key that comes often: how many of its tuples are stored, and by unit; how often it was probed for."""

    side: Side
    key: Key
    tuples: int
    probes: int
    parts: Mapping[int, int]


class Entry(BaseModel):
    """A key with a place of its own: the share of new tuples that each unit stores, and the units that are probed."""

    side: Side
    key: Key
    stores: Mapping[int, float]
    holds: Sequence[int]


class Routing(BaseModel):
    """The routing table: its epoch, how many keys have a place of their own on each side, and some of them."""

    epoch: int
    keys: Mapping[Side, int]
    entries: Sequence[Entry]


class Move(BaseModel):
    """Tuples that are to go to another unit: about how many, at what cost, what and why in words."""

    kind: str
    tuples: int
    cost: float
    words: str


class UnderWay(Move):
    """A piece that is moved: it is being copied, or it waits for others."""

    piece: int
    copying: bool


class Epoch(BaseModel):
    """A routing table that came to be: when (seconds since 1970), and why."""

    at: float
    epoch: int
    reasons: Sequence[str]


class Join(BaseModel):
    """A join as its last look saw it, at `at` (seconds since 1970), and the job's `state`.

    `imbalance` is the greatest distance of a unit's load from the mean of those in use, as a share of the mean; `bound`
    is how much of it is borne. `messages` that a tuple took are null while there are no tuples. `reasons` tell what was
    decided then, `would` and `moves` what would be done next.
    """

    state: str
    at: float
    strategy: str
    units: int
    wanted: int
    loads: Sequence[Load]
    imbalance: float
    bound: float
    heavy: Sequence[HeavyKey]
    routing: Routing
    under_way: Sequence[UnderWay]
    messages: float | None
    reasons: Sequence[str]
    would: Sequence[str]
    moves: Sequence[Move]
    history: Sequence[Epoch]


router = APIRouter(tags=["streams"], prefix="/streams/{job}/join", dependencies=[Depends(access.reads)])


@router.get("")
def join(
    job: FoundDep,
    most: Annotated[int, Query(ge=0, le=10_000, description="So many keys with places of their own")] = 20,
) -> Join:
    """What each unit holds, which keys are heavy, where they are, what moves and why, and what would be done now."""
    told = job.explanation
    return Join(**{**told, "state": job.look().state, "loads": _loads(told), "routing": _routing(told, most)})


def _loads(told: Mapping[str, Any]) -> list[Load]:
    used = told["used"]
    return [
        Load(unit=int(unit), used=int(unit) in used, left=left, right=right, stored=left + right)
        for unit, (left, right) in told["loads"].items()
    ]


def _routing(told: Mapping[str, Any], most: int) -> Routing:
    entries = told["entries"]
    counts = Counter(entry["side"] for entry in entries)
    return Routing(epoch=told["epoch"], keys={side: counts[side] for side in ("left", "right")}, entries=entries[:most])
