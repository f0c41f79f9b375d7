"""Payloads of the messages that a mapper sends to a reducer: partials of a cube, or a change of its coverage.

Each is one Arrow record batch; `payload` in its schema's metadata says which it is. That of a change of coverage has no
columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from springline.persistence.errors import DecodeError, FormatVersionError
from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.windows.coverage import CoverageChange
from springline.spark_jobs.streaming.windows.errors import InvalidPartialError


@dataclass(frozen=True)
class Origin:
    """The rows that partials are made of: offsets [start, to) of a round, by partition of the source topic.

    Example:
        >>> str(Origin({0: (10, 12)}))
        'offsets 10 to 11 of partition 0'
    """

    ranges: Mapping[int, tuple[int, int]]

    @staticmethod
    def of_round(ranges: Mapping[int, tuple[int, int]]) -> Origin:
        """Return that of a round: of the partitions that had messages."""
        return Origin({partition: each for partition, each in ranges.items() if each[1] > each[0]})

    def __str__(self) -> str:
        places = [f"offsets {start} to {to - 1} of partition {p}" for p, (start, to) in self.ranges.items()]
        return " and ".join(places)


@dataclass(frozen=True)
class Partials:
    """Partials of the cube with the id `cube`, of the rows at `origin`."""

    cube: str
    batch: pa.RecordBatch
    origin: Origin


Payload = Partials | CoverageChange


@dataclass(frozen=True)
class _Header:
    """What a batch is: a change of coverage, or else partials of a cube and their origin."""

    cube: str = ""
    origin: Origin = field(default_factory=lambda: Origin({}))
    coverage: CoverageChange | None = None


_KEY = b"payload"
_HEADERS: Codec[_Header] = Codec(_Header, 1, "what a mapper sends", "run one version of Springline on all workers")


def encode_payload(payload: Payload) -> pa.RecordBatch:
    """Encode a payload as the record batch of a message."""
    if isinstance(payload, Partials):
        header, batch = _Header(payload.cube, payload.origin), payload.batch
    else:
        header, batch = _Header(coverage=payload), pa.RecordBatch.from_arrays([], schema=pa.schema([]))
    return batch.replace_schema_metadata({_KEY: _HEADERS.encode(header)})


def decode_payload(value: bytes | memoryview, where: str) -> Payload:
    """Decode the value of a message; the inverse of `encode_payload`.

    Raises `InvalidPartialError` if no mapper has sent it, `FormatVersionError` if one of another version of Springline
    has; both name the place `where`.
    """
    try:
        batch = pa.ipc.open_stream(pa.py_buffer(value)).read_next_batch()
    except (pa.ArrowInvalid, StopIteration) as error:
        raise InvalidPartialError(f"{where}: {len(value)} bytes that are not partials: {error}") from error
    content = (batch.schema.metadata or {}).get(_KEY)
    if content is None:
        raise InvalidPartialError(f"{where}: an Arrow batch that is not from a mapper")
    try:
        header = _HEADERS.decode(content, where)
    except FormatVersionError:
        raise
    except DecodeError as error:
        raise InvalidPartialError(str(error)) from error
    if header.coverage is not None:
        return header.coverage
    return Partials(header.cube, batch.replace_schema_metadata(None), header.origin)
