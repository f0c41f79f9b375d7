"""The sidecar: a small file beside each persisted copy from which a lost catalog is rebuilt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from springline.persistence.errors import DecodeError, InvalidPathError
from springline.persistence.model.codec import Codec
from springline.persistence.model.dataset import Call, Dataset, Origin, Ref, Strategy

FILE_NAME = "_springline.json"


@dataclass(frozen=True, slots=True)
class _Sidecar:
    """Metadata of the copy of a generation; the copy has `bytes_of_copy` bytes and this `checksum`."""

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
    compute_seconds: float | None
    created_at: float
    report: Mapping[str, Any] | None


_CODEC: Codec[_Sidecar] = Codec(
    _Sidecar, 1, "the sidecar of a copy", "rebuild the catalog with the version of Springline that persisted it"
)


def encode(dataset: Dataset, *, under_checksum: str, under_bytes: int) -> bytes:
    """Encode the sidecar of a copy of `dataset` with `under_bytes` bytes, as indented JSON."""
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
        compute_seconds=dataset.compute_seconds,
        created_at=dataset.created_at,
        report=dataset.report,
    )
    return msgspec.json.format(_CODEC.encode(content), indent=1)


def decode(content: bytes, *, where: str) -> Dataset:
    """Decode the generation described by a sidecar; raises `DecodeError`, naming `where`, if it cannot be read."""
    record = _CODEC.decode(content, f"{where}/{FILE_NAME}")
    try:
        ref, sources = Ref.parse(f"{record.path}@{record.generation}"), tuple(map(Ref.parse, record.sources))
    except (ValueError, InvalidPathError) as error:
        raise DecodeError(f"{where}/{FILE_NAME}: the sidecar of a copy cannot be read: {error}") from error
    return Dataset(
        ref=ref,
        bytes=record.bytes,
        rows=record.rows,
        digest=record.digest,
        checksum=record.checksum,
        under_checksum=record.checksum,
        strategy=record.strategy,
        checkpoint=record.checkpoint,
        call=record.call,
        sources=sources,
        origin=record.origin,
        compute_seconds=record.compute_seconds,
        created_at=record.created_at,
        report=record.report,
    )


def read_copy_bytes(content: bytes, *, where: str) -> int:
    """Return the size in bytes of the copy beside a sidecar; raises `DecodeError` as `decode` does."""
    return _CODEC.decode(content, f"{where}/{FILE_NAME}").bytes_of_copy
