"""A stand-in for a broker, for what a real one does rarely: answers of its own making, one for each fetch."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from springline.spark_jobs.streaming.kafka.protocol import API_VERSIONS, FETCH, METADATA, VERSIONS, ResponseReader


@dataclass
class Answer:
    """An answer to a fetch: an error, the end of the log, record batches, and whether the broker throttles."""

    records: bytes = b""
    error: int = 0
    end: int = 0
    throttled: bool = False

    def encode(self, topic: str, partition: int) -> bytes:
        """As it is sent."""
        if self.throttled:
            return struct.pack(">ihii", 50, 0, 0, 0)
        name = topic.encode()
        head = struct.pack(">ihiih", 0, 0, 0, 1, len(name)) + name
        own = struct.pack(">iihqqqiii", 1, partition, self.error, self.end, self.end, 0, 0, -1, len(self.records))
        return head + own + self.records


Reply = Answer | None
"""An answer, or None: the connection is closed instead."""


@dataclass
class FakeBroker:
    """A broker of one topic; `answer` says what a fetch from (partition, offset) gets.

    Attributes:
        fetches: partition and offset of each fetch.
        connections: how many there were.
        leaders: index of each partition's leader in `brokers`, or -1; by default all are this one's.
    """

    answer: Callable[[int, int], Reply]
    topic: str = "rows"
    leaders: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    brokers: list[FakeBroker] = field(default_factory=list)
    fetch_versions: tuple[int, int] = (4, 17)
    fetches: list[tuple[int, int]] = field(default_factory=list)
    connections: int = 0
    address: tuple[str, int] = ("127.0.0.1", 0)

    @contextmanager
    def serving(self) -> Iterator[FakeBroker]:
        """Serve until the end of the context."""
        self.brokers = self.brokers or [self]
        with socket.create_server(self.address) as server:
            self.address = server.getsockname()[:2]
            threading.Thread(target=self._accept, args=(server,), daemon=True).start()
            yield self
            server.shutdown(socket.SHUT_RDWR)  # else a thread that waits for a connection still takes one

    def _accept(self, server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while head := connection.recv(4, socket.MSG_WAITALL):
                request = connection.recv(*struct.unpack(">i", head), socket.MSG_WAITALL)
                reader = ResponseReader(memoryview(request))
                kind, version, number = reader.take(">hhi")
                assert version == VERSIONS[kind]
                reader.string()
                if (body := self._body(kind, reader)) is None:
                    return
                connection.sendall(struct.pack(">ii", len(body) + 4, number) + body)

    def _body(self, kind: int, reader: ResponseReader) -> bytes | None:
        if kind == API_VERSIONS:
            return struct.pack(">hi", 0, 2) + struct.pack(">hhhhhh", FETCH, *self.fetch_versions, METADATA, 0, 12)
        if kind == METADATA:
            reader.take(">i")
            return self._metadata(reader.string())
        assert kind == FETCH
        reader.take(">iiiibiii")
        reader.string()
        _, partition, _, offset, _, _ = reader.take(">iiiqqi")
        self.fetches.append((partition, offset))
        answer = self.answer(partition, offset)
        return None if answer is None else answer.encode(self.topic, partition)

    def _metadata(self, topic: str) -> bytes:
        parts = [struct.pack(">ii", 0, len(self.brokers))]
        for index, broker in enumerate(self.brokers):
            host, port = broker.address
            parts.append(struct.pack(">ih", index, len(host)) + host.encode() + struct.pack(">ih", port, -1))
        name = topic.encode()
        is_known = topic == self.topic
        parts.append(struct.pack(">hiihh", -1, 0, 1, 0 if is_known else 3, len(name)) + name + b"\0")
        partitions = self.leaders if is_known else {}
        parts.append(struct.pack(">i", len(partitions)))
        for partition, leader in partitions.items():
            parts.append(struct.pack(">hiiiiii", 0, partition, leader, 1, 0, 1, 0))
        return b"".join(parts)
