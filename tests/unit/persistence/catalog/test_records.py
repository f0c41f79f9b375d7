"""How a row of the catalog becomes a generation."""

from __future__ import annotations

from typing import Any

from sqlalchemy import insert

from springline.persistence.catalog.records import load_datasets
from springline.persistence.catalog.schema import generation
from springline.persistence.model.dataset import (
    CacheState,
    Call,
    Dataset,
    Origin,
    Phase,
    Ref,
    Strategy,
    TransferMethod,
    UnderStoreState,
)
from springline.persistence.platform import Platform

STATES: dict[str, Any] = {
    "phase": Phase.RETIRED, "cache": CacheState.LOST, "under": UnderStoreState.COPYING, "strategy": Strategy.CACHE_ONLY,
    "method": TransferMethod.OPERATION,
}  # fmt: skip
YES, NO = {"checkpoint": True, "superseded": True}, {"persist_requested": False, "pinned": False, "expedited": False}
APART = {"path", "generation", "operation", "version", "params", "dag_id", "run_id", "task_id"}
QUEUE = {
    "id",
    "commit_number",
    "score",
    "not_before",
    "lease_owner",
    "lease_number",
    "lease_until",
    "claimed_at",
    "sent_bytes",
}


def test_every_column_becomes_the_field_of_its_name(platform: Platform) -> None:
    """All of them differ, so that two that changed places would be seen."""
    fields: dict[str, Any] = {**STATES, **YES, **NO, "report": {"broken": 3}}
    for number, column in enumerate(generation.c, start=1):
        if column.name not in fields and column.name not in APART | QUEUE:
            kind = column.type.python_type
            fields[column.name] = f"text {number}" if kind is str else kind(number)
    call, origin = Call("clean", "v7", {"ds": "2013-01-05"}), Origin("etl", "day 1", "clean it")
    row = {
        **fields, **{name: state.value for name, state in STATES.items()}, "path": "a", "generation": 4,
        "operation": call.name, "version": call.version, "params": call.params, "dag_id": origin.dag_id,
        "run_id": origin.run_id, "task_id": origin.task_id,
    }  # fmt: skip
    with platform.catalog.write_transaction() as connection:
        key = connection.execute(insert(generation).values(row)).inserted_primary_key[0]  # type: ignore[index]
        datasets = load_datasets(connection, [key])
    assert datasets == {key: Dataset(ref=Ref("a", 4), call=call, origin=origin, sources=(), **fields)}
