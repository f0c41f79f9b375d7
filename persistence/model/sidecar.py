"""The sidecar: a small file beside each persisted copy from which a lost catalog is rebuilt."""

from __future__ import annotations

import json
from typing import Any

from springline.persistence.errors import InvalidPath, PersistenceError
from springline.persistence.model.dataset import Call, Dataset, Origin, Ref, Strategy

NAME = "_springline.json"
_FORM = 1
_NUMBER = (int, float)
_NONE = type(None)
_TYPES: dict[str, tuple[type, ...]] = {
    "path": (str,),
    "generation": (int,),
    "bytes": (int,),
    "bytes_of_copy": (int,),
    "rows": (int, _NONE),
    "digest": (str,),
    "checksum": (str,),
    "strategy": (str,),
    "checkpoint": (bool,),
    "call": (dict, _NONE),
    "sources": (list,),
    "origin": (list,),
    "made_seconds": (*_NUMBER, _NONE),
    "created_at": _NUMBER,
    "report": (dict, _NONE),
}


def write(dataset: Dataset, *, under_checksum: str, under_bytes: int) -> bytes:
    """What the copy of `dataset` says of itself, as JSON; it has `under_bytes` bytes."""
    call = dataset.call
    content = {
        "form": _FORM,
        "path": dataset.ref.path,
        "generation": dataset.ref.generation,
        "bytes": dataset.bytes,
        "bytes_of_copy": under_bytes,
        "rows": dataset.rows,
        "digest": dataset.digest,
        "checksum": under_checksum,
        "strategy": dataset.strategy.value,
        "checkpoint": dataset.checkpoint,
        "call": {"name": call.name, "version": call.version, "params": dict(call.params)} if call else None,
        "sources": [str(source) for source in dataset.sources],
        "origin": [dataset.origin.dag_id, dataset.origin.run_id, dataset.origin.task_id],
        "made_seconds": dataset.made_seconds,
        "created_at": dataset.created_at,
        "report": dataset.report,
    }
    return json.dumps(content, ensure_ascii=False, indent=1).encode()


def read(content: bytes, *, where: str) -> Dataset:
    """The generation that a sidecar tells of; raises `PersistenceError` naming `where` it is if it cannot be read."""
    try:
        told = _checked(content)
        call = told["call"]
        return Dataset(
            ref=Ref.parse(f"{told['path']}@{told['generation']}"),
            bytes=told["bytes"],
            rows=told["rows"],
            digest=told["digest"],
            checksum=told["checksum"],
            under_checksum=told["checksum"],
            strategy=Strategy(told["strategy"]),
            checkpoint=told["checkpoint"],
            call=Call(call["name"], call["version"], call["params"]) if call else None,
            sources=tuple(Ref.parse(text) for text in told["sources"]),
            origin=Origin(*told["origin"]),
            made_seconds=told["made_seconds"],
            created_at=told["created_at"],
            report=told["report"],
        )
    except (ValueError, KeyError, TypeError, InvalidPath) as error:
        raise PersistenceError(f"{where}/{NAME} cannot be read: {error}") from error


def bytes_of_copy(content: bytes, *, where: str) -> int:
    """How many bytes the copy beside a sidecar has; raises `PersistenceError` as `read` does."""
    try:
        return int(_checked(content)["bytes_of_copy"])
    except (ValueError, KeyError, TypeError) as error:
        raise PersistenceError(f"{where}/{NAME} cannot be read: {error}") from error


def _checked(content: bytes) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(content)
    if told["form"] != _FORM:
        raise ValueError(f"form {told['form']} is not known")
    for key, types in _TYPES.items():
        if not isinstance(told[key], types):
            raise ValueError(f"{key} is {told[key]!r}")
    return told
