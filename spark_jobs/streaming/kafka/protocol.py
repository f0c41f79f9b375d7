"""Requests and responses of Kafka's protocol, as far as reading record batches needs them.

Versions are those that brokers have had since Kafka 2.3, and still have in 4.x.

Source: https://kafka.apache.org/protocol
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from springline.spark_jobs.streaming.errors import ProtocolError

FETCH, METADATA, SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 1, 3, 17, 18, 36  # numbers of requests
VERSIONS: Mapping[int, int] = {FETCH: 11, METADATA: 4, SASL_HANDSHAKE: 1, API_VERSIONS: 0, SASL_AUTHENTICATE: 0}
_CLIENT = "springline"
_READ_COMMITTED = 1

# Codes of errors.
OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE = 1, 3, 5
THROTTLED = -2  # no code of Kafka: an answer without the partition, which says that it is
_NAMES = {
    -2: "THROTTLED", -1: "UNKNOWN_SERVER_ERROR", 1: "OFFSET_OUT_OF_RANGE", 2: "CORRUPT_MESSAGE",
    3: "UNKNOWN_TOPIC_OR_PARTITION", 5: "LEADER_NOT_AVAILABLE", 6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT", 8: "BROKER_NOT_AVAILABLE",
    9: "REPLICA_NOT_AVAILABLE", 13: "NETWORK_EXCEPTION", 29: "TOPIC_AUTHORIZATION_FAILED",
    33: "UNSUPPORTED_SASL_MECHANISM", 34: "ILLEGAL_SASL_STATE", 35: "UNSUPPORTED_VERSION",
    56: "KAFKA_STORAGE_ERROR", 58: "SASL_AUTHENTICATION_FAILED", 74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH", 76: "UNSUPPORTED_COMPRESSION_TYPE", 78: "OFFSET_NOT_AVAILABLE",
}  # fmt: skip
REFUSALS = frozenset((29, 33, 34, 35, 58, 76))  # errors that no repetition mends


class FetchedPartition(NamedTuple):
    """The answer to a fetch: its error, the offset up to which all transactions have ended, and whole record batches.

    `aborted` has the first offsets of aborted transactions by the id of their producer.
    """

    error: int
    last_stable_offset: int
    aborted: Mapping[int, Sequence[int]]
    records: memoryview


class TopicLeaders(NamedTuple):
    """The leaders of a topic's partitions, as host and port; None if a partition has none at the moment."""

    error: int
    addresses: Mapping[int, tuple[str, int] | None]


def error_name(code: int) -> str:
    """Return the name of an error in Kafka's documentation, or its number."""
    return _NAMES.get(code, f"error {code}")


def frame(request: int, correlation: int, body: bytes) -> bytes:
    """Return a request as it is sent; the response has the same `correlation`."""
    header = struct.pack(">hhi", request, VERSIONS[request], correlation) + _string(_CLIENT)
    return struct.pack(">i", len(header) + len(body)) + header + body


def fetch_body(topic: str, partition: int, offset: int, *, milliseconds: int, max_bytes: int) -> bytes:
    """Return a fetch of committed records from an offset on, which waits up to `milliseconds` for the first."""
    fixed = struct.pack(">iiiibii", -1, milliseconds, 1, max_bytes, _READ_COMMITTED, 0, -1)
    own = struct.pack(">iiiqqi", 1, partition, -1, offset, -1, max_bytes)
    return fixed + struct.pack(">i", 1) + _string(topic) + own + struct.pack(">i", 0) + _string("")


def metadata_body(topic: str) -> bytes:
    """Return a request for the leaders of a topic, which does not create it."""
    return struct.pack(">i", 1) + _string(topic) + b"\0"


def string_body(text: str) -> bytes:
    """Return a request that consists of a text."""
    return _string(text)


def bytes_body(content: bytes) -> bytes:
    """Return a request that consists of bytes."""
    return struct.pack(">i", len(content)) + content


def read_fetch(response: memoryview) -> FetchedPartition:
    """Decode the answer to a fetch of one partition; raises `ProtocolError`."""
    reader = ResponseReader(response)
    _, error, _ = reader.take(">ihi")
    if error:
        return FetchedPartition(error, -1, {}, memoryview(b""))
    if not reader.count():
        return FetchedPartition(THROTTLED, -1, {}, memoryview(b""))
    reader.string()
    count, _, error, _, stable, _, aborted_count = reader.take(">iihqqqi")
    if count != 1:
        raise ProtocolError(f"{count} partitions in the answer to a fetch of one")
    aborted: dict[int, list[int]] = {}
    for _ in range(max(aborted_count, 0)):
        producer, first = reader.take(">qq")
        aborted.setdefault(producer, []).append(first)
    reader.take(">i")  # the replica to read from instead
    return FetchedPartition(error, stable, aborted, reader.bytes())


def read_metadata(response: memoryview) -> TopicLeaders:
    """Decode the leaders of a topic; raises `ProtocolError`."""
    reader = ResponseReader(response)
    reader.take(">i")
    brokers: dict[int, tuple[str, int]] = {}
    for _ in range(reader.count()):
        (node,) = reader.take(">i")
        host = reader.string()
        brokers[node] = (host, reader.take(">i")[0])
        reader.string()
    reader.string()
    reader.take(">i")
    addresses: dict[int, tuple[str, int] | None] = {}
    error = LEADER_NOT_AVAILABLE
    for _ in range(reader.count()):
        (error,) = reader.take(">h")
        reader.string()
        reader.take(">b")
        for _ in range(reader.count()):
            _, partition, leader = reader.take(">hii")
            for _ in range(2):  # replicas, and those that are in sync
                reader.skip(4 * reader.count())
            addresses[partition] = brokers.get(leader)
    return TopicLeaders(error, addresses)


def read_versions(response: memoryview) -> dict[int, tuple[int, int]]:
    """Decode the least and the greatest version that a broker has of each request; raises `ProtocolError`."""
    reader = ResponseReader(response)
    reader.take(">h")
    return {request: (least, most) for request, least, most in (reader.take(">hhh") for _ in range(reader.count()))}


class ResponseReader:
    """Reads the fields of a response one after another; each method raises `ProtocolError` if it ends before."""

    def __init__(self, content: memoryview) -> None:
        self._content = content
        self._position = 0

    def take(self, fields: str) -> tuple[int, ...]:
        """Return numbers, as `struct` describes them."""
        try:
            numbers = struct.unpack_from(fields, self._content, self._position)
        except struct.error as error:
            raise ProtocolError(f"a response of {len(self._content)} bytes is cut") from error
        self._position += struct.calcsize(fields)
        return numbers

    def count(self) -> int:
        """Return the number of elements of an array."""
        (count,) = self.take(">i")
        if count > len(self._content):
            raise ProtocolError(f"{count} elements in a response of {len(self._content)} bytes")
        return max(count, 0)

    def skip(self, size: int) -> None:
        """Pass over bytes."""
        self._position += size
        if self._position > len(self._content):
            raise ProtocolError(f"a response of {len(self._content)} bytes is cut")

    def string(self) -> str:
        """Return a text; empty if there is none."""
        (size,) = self.take(">h")
        return bytes(self._slice(size)).decode(errors="replace")

    def bytes(self) -> memoryview:
        """Return bytes; empty if there are none."""
        (size,) = self.take(">i")
        return self._slice(size)

    def _slice(self, size: int) -> memoryview:
        start = self._position
        self.skip(max(size, 0))
        return self._content[start : self._position]


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded
