"""What a topology that is not ours tells a tracker, and hears from it.

    with Tracker("localhost:9092", "orders") as tracker:
        edges = [tracker.edge() for _ in consumers]
        tracker.begin(root, edges)                        # the spring: beside the edges, root and attempt are sent on
        ...
        tracker.ack(root, processed, emitted, attempt)    # a processor: when the effect of what it processed is durable
        ...
        for root, attempt, outcome in tracker.outcomes(seconds=1.0):
            ...                                           # the spring: one that "failed" may begin as attempt + 1

**Each edge** of a root's tree has an id of its own, by `edge()`; a tuple that goes to two processors leaves on two
edges. Each is told twice: by who emits it, in `begin` or as `emitted`, and by who has processed it. **Each attempt** of
a root begins once, and begins anew under a higher number; what comes for an earlier one is dropped then, and nothing
more is told of that.

**Delivery.** What the broker has acknowledged when `flush` returns is applied once, whatever dies in the tracker, and
each attempt that has begun is told to be finished or failed, once. A client that dies, or whose `flush` raises, may
have lost what it had not flushed before: that is never taken for finished, and found by time-outs. It must not be told
again in the same attempt, since an ack that is applied twice undoes itself.
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
from springline.spark_jobs.streaming.runtime.message_log import Letter, Log
from springline.spark_jobs.streaming.tracker.wire import Asks, asks_topic, results_topic
from springline.spark_jobs.streaming.tracking.errors import InvalidRootError, InvalidUpdateError
from springline.spark_jobs.streaming.tracking.records import ATTEMPTS
from springline.spark_jobs.streaming.tracking.root_id import NO_ROOT

BATCH = 1_000  # roots and acks that are flushed together, if nobody asks for it earlier
_LOOK_SECONDS = 0.1  # between two looks for outcomes
_EDGE_BITS = 64


class Tracker:
    """A client of a tracker, for one thread; there may be many. It is a context, which flushes and closes in the end.

    Args:
        servers: of Kafka, such as `localhost:9092`, with commas between.
        job: the name of the job of kind `tracker`.
        options: of librdkafka by name, as for TLS.
        log: one that is open already, in the place of `servers` and `options`: in tests a
            `springline.testing.MemoryLog`.

    Raises:
        UnknownTopicError: the job has never run.
        LogUnavailableError: Kafka does not answer.

    Example:
        >>> from springline.testing import MemoryLog
        >>> log = MemoryLog({"orders.asks": 1, "orders.results": 1})
        >>> with Tracker("", "orders", log=log) as tracker:
        ...     edge = tracker.edge()
        ...     tracker.begin(4711, [edge])  # sent on one edge
        ...     tracker.ack(4711, edge)  # processed, and nothing came of it
        ...     list(tracker.outcomes(seconds=0))  # the tracker, which runs elsewhere, has told nothing yet
        []
    """

    def __init__(
        self, servers: str, job: str, *, options: Mapping[str, str] | None = None, log: Log | None = None
    ) -> None:
        self._own = Kafka(Cluster(servers, options or {})) if log is None else None
        self._log: Log = log if self._own is None else self._own  # type: ignore[assignment]
        self._asks, self._results = asks_topic(job), results_topic(job)
        self._begun: dict[tuple[int, int], int] = {}  # by root and attempt
        self._acked: dict[tuple[int, int], int] = {}
        self._told: deque[tuple[int, int, str]] = deque()
        try:
            units = sorted(self._log.extents(self._asks))
            self._at = {unit: extent.high for unit, extent in self._log.extents(self._results).items()}
        except LogUnavailableError:
            self._close()
            raise
        except UnknownTopicError as error:
            self._close()
            raise UnknownTopicError(f"{error}; it is made when the job {job} first starts") from error
        turn = secrets.randbelow(len(units))
        self._units = cycle([*units[turn:], *units[:turn]])  # clients do not all begin with the same one

    def __enter__(self) -> Tracker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Flush, also after an error: what was acked was processed."""
        try:
            self.flush()
        finally:
            self._close()

    def edge(self) -> int:
        """A new id for an edge: random, and never 0."""
        # The system's own chance, since processes that were forked from one would draw the same numbers otherwise.
        while not (found := secrets.randbits(_EDGE_BITS)):
            pass
        return found

    def begin(self, root: int, edges: Collection[int], attempt: int = 1) -> None:
        """Begin to track an attempt of a root that left on these edges; without any, it is finished at once.

        Raises `InvalidRootError`, `InvalidUpdateError`, and what `flush` raises.
        """
        name, value = _name(root, attempt), _together(root, edges)
        if name in self._begun:
            raise InvalidUpdateError(
                f"root {root}, attempt {attempt}: it has begun already; begin it as attempt {attempt + 1}"
            )
        self._begun[name] = value
        self._flush_full()

    def ack(self, root: int, processed: int, emitted: Collection[int] = (), attempt: int = 1) -> None:
        """Tell that a tuple was processed that came on one edge, and that others left on the emitted ones for it.

        Raises `InvalidRootError`, `InvalidUpdateError`, and what `flush` raises.
        """
        name, value = _name(root, attempt), _together(root, [processed, *emitted])
        self._acked[name] = self._acked.get(name, 0) ^ value
        self._flush_full()

    def flush(self) -> None:
        """Send what was told; when it returns, the broker has it. Raises `LogUnavailableError`: see Delivery above."""
        begun, acked = self._begun, self._acked
        self._begun, self._acked = {}, {}  # gone before it is sent: nothing is ever sent again from here
        rows = [(*name, True, value) for name, value in begun.items()]
        rows += [(*name, False, value) for name, value in acked.items()]
        if rows:
            with self._log.sending() as sending:
                sending.send(Letter(self._asks, next(self._units), Asks.of(rows).encode()))

    def outcomes(self, seconds: float) -> Iterator[tuple[int, int, str]]:
        """Root, attempt, and "finished" or "failed", of all clients' roots, as they are told within so many seconds.

        The first call goes on from where the client was opened, later ones where the one before was left. It flushes
        first. Raises what `flush` raises, and `MessagesLostError`.
        """
        self.flush()
        until = time.monotonic() + seconds
        while True:
            self._look()
            while self._told:
                yield self._told.popleft()
            if (left := until - time.monotonic()) <= 0:
                return
            time.sleep(min(left, _LOOK_SECONDS))

    def _look(self) -> None:
        for unit, extent in self._log.extents(self._results).items():
            for message in self._log.fetch(self._results, unit, self._at[unit], extent.high):
                for line in bytes(message.value).splitlines():
                    with suppress(ValueError, TypeError, KeyError, RecursionError):  # somebody else's line
                        told = json.loads(line)
                        self._told.append((told["root"], told["attempt"], told["outcome"]))
                self._at[unit] = message.offset + 1
            self._at[unit] = max(self._at[unit], extent.high)

    def _flush_full(self) -> None:
        if len(self._begun) + len(self._acked) >= BATCH:
            self.flush()

    def _close(self) -> None:
        if self._own is not None:
            self._own.close()


def _name(root: int, attempt: int) -> tuple[int, int]:
    if not 0 <= root < NO_ROOT:
        raise InvalidRootError(f"{root} names no root: ids are 0 to {NO_ROOT - 1}")
    if not 1 <= attempt <= ATTEMPTS:
        raise InvalidUpdateError(f"root {root}, attempt {attempt}: attempts count from 1 to {ATTEMPTS}")
    return root, attempt


def _together(root: int, edges: Collection[int]) -> int:
    """All edges XORed; raises `InvalidUpdateError`."""
    found = 0
    for edge in edges:
        if not 0 < edge < 1 << _EDGE_BITS:
            raise InvalidUpdateError(f"root {root}, edge {edge}: ids of edges are 1 to 2^{_EDGE_BITS} - 1")
        found ^= edge
    if len(set(edges)) < len(edges):
        raise InvalidUpdateError(f"root {root}: one edge is named twice; each tuple on its way needs an id of its own")
    return found
