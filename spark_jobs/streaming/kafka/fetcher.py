"""Fetches record batches: requests and connections are kafka-python's, the records are found by `record_batches`."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import kafka.errors as kafka_errors
from kafka import TopicPartition
from kafka.net.compat import KafkaNetClient
from kafka.protocol.consumer import FetchRequest

from springline.spark_jobs.streaming.errors import LogUnavailableError, MessagesLostError, UnknownTopicError
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.record_batches import Records, read_batches
from springline.spark_jobs.streaming.runtime.rounds import OffsetBounds

_WAIT_MILLISECONDS = 100  # for new records, at the broker
_MAX_BYTES = 16 << 20  # of a response; of a batch that is larger, all
_MAX_RESPONSE_BYTES = 1 << 30
_READ_COMMITTED = 1
_RETRY_SECONDS = 0.1
_VERSIONS = {"min_version": 4, "max_version": 12}  # of the request: the first with transactions, the last with names


class RecordFetcher:
    """Reads partitions as record batches. Not thread-safe.

    `read_bounds` returns the offsets that a topic holds.
    """

    def __init__(
        self, cluster: Cluster, timeout: float, read_bounds: Callable[[str], Mapping[int, OffsetBounds]]
    ) -> None:
        self._cluster = cluster
        self._timeout = timeout
        self._read_bounds = read_bounds
        self._client: Any = None

    def fetch(self, topic: str, partition: int, start: int, to: int, *, number: int) -> Iterator[Records]:
        """Yield the records of a partition at the offsets [start, to) as they arrive; they say `number` of it.

        Raises `MessagesLostError`, `UnknownTopicError`, `LogUnavailableError`, `CorruptBatchError`.
        """
        place, position = TopicPartition(topic, partition), start
        until = time.monotonic() + self._timeout
        pending: Any = None
        while position < to:
            try:
                response = self._response(pending or self._send(place, position), until)
                pending = None
                self._raise_error(place, position, response.error_code)
            except kafka_errors.KafkaError as error:
                pending = None
                self._recover(place, position, error, until)
                continue
            aborted = defaultdict[int, list[int]](list)
            for transaction in response.aborted_transactions or ():
                aborted[transaction.producer_id].append(transaction.first_offset)
            records, next_offset = read_batches(response.records or b"", (position, to), aborted, number)
            if next_offset > position:
                position, until = next_offset, time.monotonic() + self._timeout
                if position < to:
                    pending = self._send(place, position)  # it comes while the records are in use
                if len(records):
                    yield records
            elif response.last_stable_offset >= to:
                return  # no offset from here on has a record
            elif time.monotonic() > until:
                raise self._missing_error(place, position, to)

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connected(self) -> Any:
        if self._client is None:
            self._client = KafkaNetClient(
                bootstrap_servers=self._cluster.servers.split(","), client_id="springline",
                receive_message_max_bytes=_MAX_RESPONSE_BYTES, request_timeout_ms=int(self._timeout * 1000),
                reconnect_backoff_ms=250, reconnect_backoff_max_ms=1000,
            )  # fmt: skip
            self._client.check_version(timeout_ms=int(self._timeout * 1000))
        return self._client

    def _send(self, place: TopicPartition, position: int) -> Any:
        client = self._connected()
        self._finish(client.cluster.add_topic(place.topic), self._timeout)
        leader = client.cluster.leader_for_partition(place)
        if leader is None or leader < 0:
            raise kafka_errors.LeaderNotAvailableError(f"{place.topic}[{place.partition}] has no leader")
        epoch = client.cluster.leader_epoch_for_partition(place)
        fetched = FetchRequest.FetchTopic.FetchPartition(
            partition=place.partition, current_leader_epoch=-1 if epoch is None else epoch, fetch_offset=position,
            last_fetched_epoch=-1, log_start_offset=-1, partition_max_bytes=_MAX_BYTES,
        )  # fmt: skip
        request = FetchRequest(
            max_wait_ms=_WAIT_MILLISECONDS, min_bytes=1, max_bytes=_MAX_BYTES, isolation_level=_READ_COMMITTED,
            session_id=0, session_epoch=-1, topics=[FetchRequest.FetchTopic(topic=place.topic, partitions=[fetched])],
            forgotten_topics_data=[], rack_id="", **_VERSIONS,
        )  # fmt: skip
        return client.send(leader, request)

    def _response(self, pending: Any, until: float) -> Any:
        response = self._finish(pending, until - time.monotonic())
        return response.responses[0].partitions[0]

    def _finish(self, future: Any, seconds: float) -> Any:
        """Return the value of a future, or raise its error, or `KafkaTimeoutError`."""
        if not future.is_done:
            self._connected().poll(timeout_ms=max(seconds, 0) * 1000, future=future)
        if future.failed():
            raise future.exception
        if not future.is_done:
            raise kafka_errors.KafkaTimeoutError("no answer")
        return future.value

    def _raise_error(self, place: TopicPartition, position: int, code: int) -> None:
        error = kafka_errors.for_code(code)
        where = f"{place.topic}[{place.partition}]"
        if error is kafka_errors.OffsetOutOfRangeError:
            raise MessagesLostError(f"{where}: messages from offset {position} on are no longer available")
        if error is kafka_errors.UnknownTopicOrPartitionError:
            raise UnknownTopicError(f"{where} does not exist at {self._cluster.servers}")
        if error is not kafka_errors.NoError:
            raise error()

    def _recover(self, place: TopicPartition, position: int, error: Exception, until: float) -> None:
        """Wait a moment and ask for the leaders again; raises `LogUnavailableError` if it is too late."""
        if time.monotonic() > until or not getattr(error, "retriable", False):
            raise LogUnavailableError(
                f"{place.topic}[{place.partition}], offset {position}, Kafka at {self._cluster.servers}: {error}"
            ) from error
        time.sleep(_RETRY_SECONDS)
        if self._client is not None:
            self._client.poll(timeout_ms=_RETRY_SECONDS * 1000, future=self._client.cluster.request_update())

    def _missing_error(self, place: TopicPartition, position: int, to: int) -> LogUnavailableError | MessagesLostError:
        """Return the error for missing messages, although `to` was once the end offset."""
        where, bounds = f"{place.topic}[{place.partition}]", self._read_bounds(place.topic)[place.partition]
        if bounds.high < to:
            return MessagesLostError(
                f"{where}: the messages at offsets {position} to {to - 1} are no longer available; available: "
                f"{bounds.low} to {bounds.high}"
            )
        return LogUnavailableError(f"{where}: no message at offset {position} (of {to}) within {self._timeout:g} s")
