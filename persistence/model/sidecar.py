"""The sidecar: a small file beside each persisted copy from which a lost catalog is rebuilt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from springline.persistence.errors import DecodeError, InvalidPathError
from springline.persistence.model.codec import Codec
from springline.persistence.model.dataset import Call, Dataset, Origin, Ref, Strategy

NAME = "_springline.json"


@dataclass(frozen=True, slots=True)
class _Sidecar:
    """What the copy of a generation says of itself; the copy has `bytes_of_copy` bytes and this `checksum`."""

    path: str
    generation: int
    bytes: int
    bytes_of_copy: int
    rows: int | None
    digest: str
    checksum: str
    strategy: Strategy
    checkpoint: bool
    call: Call | None
    sources: tuple[str, ...]
    origin: Origin
    made_seconds: float | None
    created_at: float
    report: Mapping[str, Any] | None


_CODEC: Codec[_Sidecar] = Codec(
    _Sidecar, 1, "the sidecar of a copy", "rebuild the catalog with the version of Springline that persisted it"
)


def write(dataset: Dataset, *, under_checksum: str, under_bytes: int) -> bytes:
    """What the copy of `dataset` says of itself, as JSON for people too; it has `under_bytes` bytes."""
    content = _Sidecar(
        path=dataset.ref.path,
        generation=dataset.ref.generation,
        bytes=dataset.bytes,
        bytes_of_copy=under_bytes,
        rows=dataset.rows,
        digest=dataset.digest,
        checksum=under_checksum,
        strategy=dataset.strategy,
        checkpoint=dataset.checkpoint,
        call=dataset.call,
        sources=tuple(map(str, dataset.sources)),
        origin=dataset.origin,
        made_seconds=dataset.made_seconds,
        created_at=dataset.created_at,
        report=dataset.report,
    )
    return msgspec.json.format(_CODEC.encode(content), indent=1)


def read(content: bytes, *, where: str) -> Dataset:
    """The generation that a sidecar tells of; raises `DecodeError` naming `where` it is if it cannot be read."""
    found = _CODEC.decode(content, f"{where}/{NAME}")
    try:
        ref, sources = Ref.parse(f"{found.path}@{found.generation}"), tuple(map(Ref.parse, found.sources))
    except (ValueError, InvalidPathError) as error:
        raise DecodeError(f"{where}/{NAME}: the sidecar of a copy cannot be read: {error}") from error
    return Dataset(
        ref=ref,
        bytes=found.bytes,
        rows=found.rows,
        digest=found.digest,
        checksum=found.checksum,
        under_checksum=found.checksum,
        strategy=found.strategy,
        checkpoint=found.checkpoint,
        call=found.call,
        sources=sources,
        origin=found.origin,
        made_seconds=found.made_seconds,
        created_at=found.created_at,
        report=found.report,
    )


def bytes_of_copy(content: bytes, *, where: str) -> int:
    """How many bytes the copy beside a sidecar has; raises `DecodeError` as `read` does."""
    return _CODEC.decode(content, f"{where}/{NAME}").bytes_of_copy
