"""Joins over HTTP: the load of each unit, heavy keys, migrations and their reasons, and what would be done now."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, BeforeValidator

from springline.airflow.api import access
from springline.airflow.api.streams import JobDep
from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.key_text import key_columns, key_of_texts
from springline.spark_jobs.streaming.join.errors import InvalidKeyError, NeverBalancedError
from springline.spark_jobs.streaming.join.rebalance import read_controller_state
from springline.spark_jobs.streaming.join.rebalanced_job import as_rebalanced
from springline.spark_jobs.streaming.join.routing.key_explanation import explain_key
from springline.spark_jobs.streaming.join.wire import JoinSide

SideName = Literal["left", "right"]
Placement = Literal["hash", "pinned", "split"]
Key = Annotated[str, BeforeValidator(str)]  # has 64 bits, more than an integer in JavaScript can represent


class UnitLoad(BaseModel):
    """A possible unit of a join: whether it is in use, and how many tuples it stores of each side and in total."""

    unit: int
    used: bool
    left: int
    right: int
    stored: int


class HeavyKey(BaseModel):
    """A heavy key on a side: how many of its tuples are stored, in all and by unit (`parts`), and how often probed.

    `share` is that of the tuples of both sides in a unit's mean load. `placement` is what routing does with it: hash,
    pinned (to one unit) or split (over several).
    """

    side: SideName
    key: Key
    tuples: int
    probes: int
    parts: Mapping[int, int]
    share: float
    placement: Placement


class KeyColumn(BaseModel):
    """A column that the keys of a side are computed from."""

    name: str
    type: str


class KeySide(BaseModel):
    """A key on a side: the share of its new tuples that each unit stores, and the units that its tuples probe.

    `tuples` are stored (by unit: `parts`), null if the key is too rare to be counted: then at most `at_most`; `probes`
    counts the tuples of the other side with this key. `sentence` says it in words.
    """

    side: SideName
    stores: Mapping[int, float]
    probed_units: Sequence[int]
    tuples: int | None
    at_most: int
    parts: Mapping[int, int]
    probes: int | None
    placement: Placement
    sentence: str


class JoinKey(BaseModel):
    """What a join does with one key: `key` is the 64-bit number that routing uses, `values` those of its columns.

    A heavy key has more tuples than `max_imbalance` of a unit's mean load (`share`), or is split over units; `reason`
    says why it is heavy or not.
    """

    key: Key
    values: Sequence[str]
    columns: Sequence[KeyColumn]
    is_heavy: bool
    share: float
    reason: str
    sides: Sequence[KeySide]


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
    are what would be done next. Of the `moving_tuples` of the migrations in progress, `moved_tuples` have been moved.
    `key_columns` are the columns of the left side that a key is made of.
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
    moving_tuples: int
    moved_tuples: int
    key_columns: Sequence[KeyColumn]


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
            "heavy_keys": [each for each in explanation["heavy_keys"] if each["is_heavy"]],
            "key_columns": _key_columns(as_rebalanced(job.job).condition, JoinSide.LEFT),
            "loads": _loads(explanation),
            "routing": _routing(explanation, limit),
        }
    )


@router.get("/keys/{key:path}")
def key(
    job: JobDep,
    key: Annotated[
        str, Path(max_length=1000, description="The value of the key column; of several, separated by comma")
    ],
    side: Annotated[SideName, Query(description="The side whose columns have these values")] = "left",
    encoded: Annotated[bool, Query(description="KEY is the number that routing uses, as in the heavy keys")] = False,
) -> JoinKey:
    """Return what the join does with a key: where it is stored, what it probes, whether it is heavy and why."""
    explanation, condition = job.explanation, as_rebalanced(job.job).condition
    join_side = JoinSide[side.upper()]
    columns = _key_columns(condition, join_side)
    values = [key] if encoded or len(columns) == 1 else [value.strip() for value in key.split(",")]
    number = _encoded_key(key) if encoded else key_of_texts(condition, join_side, values)
    state = read_controller_state(job.folder)
    if state is None:
        raise NeverBalancedError(f"{job.job.name}: it has no routing table yet; start the job")
    explained = explain_key(state.table, condition.key_band, number, explanation)
    return JoinKey(**{**asdict(explained), "values": values, "columns": columns})


def _encoded_key(text: str) -> int:
    """Return a key that is written as routing has it; raises `InvalidKeyError`."""
    if not re.fullmatch(r"-?[0-9]{1,19}", text) or not -(2**63) <= int(text) < 2**63:
        raise InvalidKeyError(f"{text!r} is no 64-bit integer")
    return int(text)


def _key_columns(condition: Condition, side: JoinSide) -> list[KeyColumn]:
    return [KeyColumn(name=name, type=kind) for name, kind in key_columns(condition, side).items()]


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
