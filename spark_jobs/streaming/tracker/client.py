"""Client library of a tracker, for topologies that are not Springline's: begins and acks roots, reads outcomes.

    with Tracker("localhost:9092", "orders") as tracker:
        edges = [tracker.edge() for _ in consumers]
        tracker.begin(root, edges)                        # the spring: sends root and attempt on, with the edges
        ...
        tracker.ack(root, processed, emitted, attempt)    # a processor: when the effect of what it processed is durable
        ...
        for root, attempt, outcome in tracker.outcomes(seconds=1.0):
            ...                                           # the spring: one that "failed" may begin as attempt + 1

**Each edge** of a root's tree has a separate id, from `edge()`; a tuple that goes to two processors leaves on two
edges. Each edge is reported twice: by its sender, in `begin` or as `emitted`, and by the processor that has processed
it. **Each attempt** of a root begins once; a retry begins under a higher number. Acks of an earlier attempt are then
dropped, and no outcome is emitted for it.

**Delivery.** What the broker has acknowledged when `flush` returns is applied once, even if the tracker fails, and each
attempt that has started gets one outcome: finished or failed. A client that dies, or whose `flush` raises, may have
lost what it had not flushed before: its roots are never taken for finished, but time out. What was lost must not be
sent again in the same attempt, since applying an ack twice cancels it.
"""

from __future__ import annotations

import json
import secrets
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from itertools import cycle
from types import TracebackType

from springline.spark_jobs.streaming.errors import LogUnavailableError, UnknownTopicError
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.message_log import MessageLog, OutgoingRecord
from springline.spark_jobs.streaming.tracker.wire import TrackerRequests, requests_topic, results_topic
from springline.spark_jobs.streaming.tracking.errors import InvalidRootError, InvalidUpdateError
from springline.spark_jobs.streaming.tracking.records import ATTEMPTS
from springline.spark_jobs.streaming.tracking.root_id import NO_ROOT

BATCH = 1_000  # roots and acks that are flushed together, unless `flush` is called earlier
_POLL_SECONDS = 0.1  # between two polls for outcomes
_EDGE_BITS = 64


class Tracker:
    """A client of a tracker, for one thread; there may be many. As a context manager, it flushes and closes at exit.

    Args:
        servers: Kafka's bootstrap servers, such as `localhost:9092`, separated by commas.
        job: the name of the job of kind `tracker`.
        options: librdkafka options by name, for example for TLS.
        log: an open log, instead of `servers` and `options`: in tests a `springline.testing.MemoryLog`.

    Raises:
        UnknownTopicError: the job has never run.
        LogUnavailableError: Kafka does not respond.

    Example:
        >>> from springline.testing import MemoryLog
        >>> log = MemoryLog({"orders.requests": 1, "orders.results": 1})
        >>> with Tracker("", "orders", log=log) as tracker:
        ...     edge = tracker.edge()
        ...     tracker.begin(4711, [edge])  # sent on one edge
        ...     tracker.ack(4711, edge)  # processed, with no child tuples
        ...     list(tracker.outcomes(seconds=0))  # no outcome yet: no tracker job runs
        []
    """

    def __init__(
        self, servers: str, job: str, *, options: Mapping[str, str] | None = None, log: MessageLog | None = None
    ) -> None:
        self._own_log = Kafka(Cluster(servers, options or {})) if log is None else None
        self._log: MessageLog = log if self._own_log is None else self._own_log  # type: ignore[assignment]
        self._requests_topic, self._results_topic = requests_topic(job), results_topic(job)
        self._started_roots: dict[tuple[int, int], int] = {}  # by root and attempt
        self._acked_roots: dict[tuple[int, int], int] = {}
        self._outcomes: deque[tuple[int, int, str]] = deque()
        try:
            units = sorted(self._log.offset_bounds(self._requests_topic))
            self._offsets = {unit: extent.high for unit, extent in self._log.offset_bounds(self._results_topic).items()}
        except LogUnavailableError:
            self._close()
            raise
        except UnknownTopicError as error:
            self._close()
            raise UnknownTopicError(f"{error}; it is created when the job {job} first starts") from error
        turn = secrets.randbelow(len(units))
        self._units = cycle([*units[turn:], *units[:turn]])  # clients do not all start with the same unit

    def __enter__(self) -> Tracker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Flush, also after an error: acked tuples were processed."""
        try:
            self.flush()
        finally:
            self._close()

    def edge(self) -> int:
        """Return a new id for an edge: random, and never 0."""
        # The system's random source, since forked processes would otherwise draw the same numbers.
        while not (edge := secrets.randbits(_EDGE_BITS)):
            pass
        return edge

    def begin(self, root: int, edges: Collection[int], attempt: int = 1) -> None:
        """Begin to track an attempt of a root that left on `edges`; without edges, it is finished at once.

        Raises `InvalidRootError`, `InvalidUpdateError`, and what `flush` raises.
        """
        root_attempt, value = _checked_attempt(root, attempt), _xor_edges(root, edges)
        if root_attempt in self._started_roots:
            raise InvalidUpdateError(
                f"root {root}, attempt {attempt}: it is already registered; register it as attempt {attempt + 1}"
            )
        self._started_roots[root_attempt] = value
        self._flush_full()

    def ack(self, root: int, processed: int, emitted: Collection[int] = (), attempt: int = 1) -> None:
        """Report that the tuple of edge `processed` was processed, and that others left for it on the `emitted` edges.

        Raises `InvalidRootError`, `InvalidUpdateError`, and what `flush` raises.
        """
        root_attempt, value = _checked_attempt(root, attempt), _xor_edges(root, [processed, *emitted])
        self._acked_roots[root_attempt] = self._acked_roots.get(root_attempt, 0) ^ value
        self._flush_full()

    def flush(self) -> None:
        """Send what is buffered; when it returns, the broker has it.

        Raises `LogUnavailableError`: see Delivery above.
        """
        started, acked = self._started_roots, self._acked_roots
        self._started_roots, self._acked_roots = {}, {}  # cleared before sending: nothing is sent twice
        rows = [(*name, True, value) for name, value in started.items()]
        rows += [(*name, False, value) for name, value in acked.items()]
        if rows:
            with self._log.record_sender() as sending:
                sending.send(OutgoingRecord(self._requests_topic, next(self._units), TrackerRequests.of(rows).encode()))

    def outcomes(self, seconds: float) -> Iterator[tuple[int, int, str]]:
        """Yield root, attempt, and "finished" or "failed", of all clients' roots, as they arrive within `seconds`.

        The first call begins where the topic ended when the client was opened, later ones where the previous one ended.
        It flushes first. Raises what `flush` raises, and `MessagesLostError`.
        """
        self.flush()
        until = time.monotonic() + seconds
        while True:
            self._poll_outcomes()
            while self._outcomes:
                yield self._outcomes.popleft()
            if (left := until - time.monotonic()) <= 0:
                return
            time.sleep(min(left, _POLL_SECONDS))

    def _poll_outcomes(self) -> None:
        for unit, extent in self._log.offset_bounds(self._results_topic).items():
            for message in self._log.fetch(self._results_topic, unit, self._offsets[unit], extent.high):
                for line in bytes(message.value).splitlines():
                    with suppress(ValueError, TypeError, KeyError, RecursionError):  # a line of another producer
                        fields = json.loads(line)
                        self._outcomes.append((fields["root"], fields["attempt"], fields["outcome"]))
                self._offsets[unit] = message.offset + 1
            self._offsets[unit] = max(self._offsets[unit], extent.high)

    def _flush_full(self) -> None:
        if len(self._started_roots) + len(self._acked_roots) >= BATCH:
            self.flush()

    def _close(self) -> None:
        if self._own_log is not None:
            self._own_log.close()


def _checked_attempt(root: int, attempt: int) -> tuple[int, int]:
    if not 0 <= root < NO_ROOT:
        raise InvalidRootError(f"{root} is not the id of a root: ids are 0 to {NO_ROOT - 1}")
    if not 1 <= attempt <= ATTEMPTS:
        raise InvalidUpdateError(f"root {root}, attempt {attempt}: attempts count from 1 to {ATTEMPTS}")
    return root, attempt


def _xor_edges(root: int, edges: Collection[int]) -> int:
    """Return the XOR of all edges; raises `InvalidUpdateError`."""
    value = 0
    for edge in edges:
        if not 0 < edge < 1 << _EDGE_BITS:
            raise InvalidUpdateError(f"root {root}, edge {edge}: ids of edges are 1 to 2^{_EDGE_BITS} - 1")
        value ^= edge
    if len(set(edges)) < len(edges):
        raise InvalidUpdateError(f"root {root}: duplicate edge: each tuple in flight needs its own id")
    return value
