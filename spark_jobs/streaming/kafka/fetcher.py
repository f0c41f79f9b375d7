"""Reads topics as record batches: one request at a time for a partition, the next one sent before its answer is used.

What a response holds beyond the wanted offsets is kept for the read that goes on there.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from springline.spark_jobs.streaming.errors import (
    CorruptBatchError,
    LogUnavailableError,
    MessagesLostError,
    ProtocolError,
    UnknownTopicError,
)
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.connection import BrokerConnection, Security
from springline.spark_jobs.streaming.kafka.consumer import missing_error
from springline.spark_jobs.streaming.kafka.protocol import (
    FETCH,
    METADATA,
    OFFSET_OUT_OF_RANGE,
    REFUSALS,
    UNKNOWN_TOPIC,
    FetchedPartition,
    error_name,
    fetch_body,
    metadata_body,
    read_fetch,
    read_metadata,
)
from springline.spark_jobs.streaming.kafka.record_batches import read_batches
from springline.spark_jobs.streaming.runtime.message import MessageBatch
from springline.spark_jobs.streaming.runtime.rounds import OffsetBounds

_WAIT_MILLISECONDS = 100  # for new records, at the broker
_MAX_BYTES = 4 << 20  # of a response; of a batch that is larger, all
_MAX_REST_BYTES = 64 << 20  # of all that is kept for later reads
_ANSWER_SECONDS = 20.0  # without a byte, after which another connection is opened
_RETRY_SECONDS = 0.1
_ATTEMPTS = 3  # fetches of a batch that is damaged each time

_Address = tuple[str, int]
_Place = tuple[str, int]


class _RetriableError(Exception):
    """An answer that may be another one a moment later, or at another broker."""


@dataclass(frozen=True)
class _Rest:
    """Records that were read ahead: all from an offset up to another one."""

    start: int
    to: int
    messages: MessageBatch

    def between(self, start: int, to: int) -> MessageBatch:
        """Return those at the offsets [start, to)."""
        first, end = np.searchsorted(self.messages.offsets, (start, to)).tolist()
        return self.messages[first:end]


class _Pending(NamedTuple):
    """A fetch that was sent."""

    address: _Address
    connection: BrokerConnection
    number: int


def _corrupt_error(place: _Place, position: int, error: CorruptBatchError) -> CorruptBatchError:
    topic, partition = place
    return CorruptBatchError(
        f"{topic}[{partition}], from offset {position} on: {error}; if another consumer cannot read it either, restore "
        "the partition from a replica, or delete its records up to the offset behind the batch"
    )


class RecordFetcher:
    """Reads partitions as record batches. Not thread-safe.

    `read_bounds` returns the offsets that a topic holds. Every read raises `UnsupportedClusterError` if it needs the
    messages of an older broker or format, or other security than there is.
    """

    def __init__(
        self, cluster: Cluster, timeout: float, read_bounds: Callable[[str], Mapping[int, OffsetBounds]]
    ) -> None:
        self._cluster = cluster
        self._timeout = timeout
        self._read_bounds = read_bounds
        self._connections: dict[_Address, BrokerConnection] = {}
        self._leaders: dict[str, Mapping[int, _Address | None]] = {}
        self._rests: dict[_Place, _Rest] = {}  # kept last at the end

    def fetch(self, topic: str, partition: int, start: int, to: int, *, number: int) -> Iterator[MessageBatch]:
        """Yield the messages of a partition at the offsets [start, to) as they arrive; they say `number` of it.

        Raises `MessagesLostError`, `UnknownTopicError`, `LogUnavailableError`, `CorruptBatchError`.
        """
        place, position = (topic, partition), start
        rest = self._rests.pop(place, None)
        if rest is not None and rest.start <= position < rest.to and rest.messages.partition == number:
            position = min(rest.to, to)
            if position < rest.to:
                self._keep(place, _Rest(position, rest.to, rest.between(position, rest.to)))
            if len(messages := rest.between(start, to)):
                yield messages
        until = time.monotonic() + self._timeout
        pending: _Pending | None = None
        damaged = 0
        try:
            while position < to:
                try:
                    answer = self._receive(pending or self._send(place, position))
                    pending = None
                    self._check(place, position, answer.error)
                    messages, next_offset = read_batches(answer.records, position, answer.aborted, number)
                except (OSError, ProtocolError, _RetriableError, CorruptBatchError) as error:
                    pending = None
                    if isinstance(error, CorruptBatchError) and (damaged := damaged + 1) >= _ATTEMPTS:
                        raise _corrupt_error(place, position, error) from error
                    self._recover(place, position, error, until)
                    continue
                if next_offset > position:
                    began, position, until = position, next_offset, time.monotonic() + self._timeout
                    if position < to:
                        pending = self._try_send(place, position)  # it comes while the messages are in use
                    read = _Rest(began, next_offset, messages)
                    if next_offset > to:
                        self._keep(place, _Rest(to, next_offset, read.between(to, next_offset)))
                    if len(messages := read.between(began, to)):
                        yield messages
                elif answer.last_stable_offset >= to:
                    return  # no offset from here on has a record
                elif time.monotonic() > until:
                    raise missing_error(
                        f"{topic}[{partition}]", self._read_bounds(topic)[partition], (position, to), self._timeout
                    )
        finally:
            if pending is not None:  # the iteration was abandoned
                pending.connection.forget(pending.number)

    def close(self) -> None:
        """Close all connections."""
        for address in list(self._connections):
            self._drop(address)
        self._rests.clear()

    @cached_property
    def _security(self) -> Security:
        return Security(self._cluster.options)

    def _keep(self, place: _Place, rest: _Rest) -> None:
        self._rests.pop(place, None)
        self._rests[place] = rest
        while sum(each.messages.data.size for each in self._rests.values()) > _MAX_REST_BYTES and len(self._rests) > 1:
            self._rests.pop(next(iter(self._rests)))

    def _send(self, place: _Place, position: int) -> _Pending:
        """Send a fetch."""
        topic, partition = place
        address = self._leader(place)
        connection = self._connection(address)
        body = fetch_body(topic, partition, position, milliseconds=_WAIT_MILLISECONDS, max_bytes=_MAX_BYTES)
        try:
            number = connection.send(FETCH, body)
        except OSError:
            self._drop(address)
            raise
        return _Pending(address, connection, number)

    def _try_send(self, place: _Place, position: int) -> _Pending | None:
        """Send a fetch ahead; if that fails, it is sent again, and recovered from, when its answer is needed."""
        try:
            return self._send(place, position)
        except (OSError, ProtocolError, _RetriableError):
            return None

    def _receive(self, pending: _Pending) -> FetchedPartition:
        try:
            return read_fetch(pending.connection.receive(pending.number))
        except (OSError, ProtocolError):
            if self._connections.get(pending.address) is pending.connection:
                self._drop(pending.address)
            raise

    def _leader(self, place: _Place) -> _Address:
        topic, partition = place
        leaders = self._leaders.get(topic)
        if leaders is None or leaders.get(partition) is None:
            leaders = self._leaders[topic] = self._read_leaders(topic)
        if partition not in leaders:
            raise UnknownTopicError(f"{topic} has no partition {partition} at {self._cluster.servers}")
        if (address := leaders[partition]) is None:
            raise _RetriableError("the partition has no leader")
        return address

    def _read_leaders(self, topic: str) -> Mapping[int, _Address | None]:
        """Ask the brokers in turn; raises the error of the last one."""
        addresses = [*self._connections, *self._cluster.addresses]
        for index, address in enumerate(addresses):
            try:
                answer = read_metadata(self._connection(address).call(METADATA, metadata_body(topic)))
            except (OSError, ProtocolError):
                self._drop(address)
                if index + 1 == len(addresses):
                    raise
                continue
            if answer.error == UNKNOWN_TOPIC:
                raise UnknownTopicError(f"{topic} does not exist at {self._cluster.servers}")
            return answer.addresses
        raise _RetriableError("no broker has an address")

    def _connection(self, address: _Address) -> BrokerConnection:
        if address not in self._connections:
            self._connections[address] = BrokerConnection(address, self._security, min(_ANSWER_SECONDS, self._timeout))
        return self._connections[address]

    def _drop(self, address: _Address) -> None:
        if (connection := self._connections.pop(address, None)) is not None:
            connection.close()

    def _check(self, place: _Place, position: int, error: int) -> None:
        where = f"{place[0]}[{place[1]}]"
        if error == OFFSET_OUT_OF_RANGE:
            raise MessagesLostError(f"{where}: messages from offset {position} on are no longer available")
        if error in REFUSALS:
            raise LogUnavailableError(f"{where}, Kafka at {self._cluster.servers}: {error_name(error)}")
        if error:
            raise _RetriableError(error_name(error))

    def _recover(self, place: _Place, position: int, error: Exception, until: float) -> None:
        """Wait a moment, and forget who leads the topic; raises `LogUnavailableError` if it is too late or no use."""
        self._leaders.pop(place[0], None)
        if time.monotonic() > until or isinstance(error, PermissionError | ssl.SSLCertVerificationError):
            where = f"{place[0]}[{place[1]}], offset {position}, Kafka at {self._cluster.servers}"
            raise LogUnavailableError(f"{where}: {error}") from error
        time.sleep(_RETRY_SECONDS)
