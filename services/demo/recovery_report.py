"""Observes the recovery from a fault in the catalog, the heartbeat and the topics; it repairs nothing itself."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table

from springline.persistence.catalog.catalog import Catalog
from springline.persistence.model.dataset import Ref, StateChange
from springline.persistence.model.transitions import Event
from springline.persistence.text.formatting import format_count, format_seconds
from springline.persistence.text.tables import plain_table
from springline.services.demo.streams import FLIGHTS, LINES, WORD_COUNT, format_state
from springline.services.errors import ServiceError
from springline.spark_jobs.streaming.application.status import read_status
from springline.spark_jobs.streaming.jobs import read_job
from springline.spark_jobs.streaming.runtime.message_log import MessageLog
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.tracking.completeness import completeness_of

CACHE, STREAM, LINES_OF, COUNTS = "cache", f"stream {WORD_COUNT}", f"lines of {WORD_COUNT}", f"counts of {WORD_COUNT}"
_THINGS = (CACHE, STREAM, LINES_OF, COUNTS)


@dataclass(frozen=True)
class RecoveredItem:
    """One item that was affected: how it recovered, and after how many seconds."""

    thing: str
    how: str
    seconds: float


@dataclass(frozen=True)
class CacheRecovery:
    """The recovery of a lost cache, as recorded in the catalog.

    `exposed_count`: datasets that were only in the cache; `lost_count`: datasets found lost; `restored_count`: restored
    ones of the exposed datasets.
    """

    exposed_count: int
    lost_count: int
    restored_count: int

    @property
    def is_healed(self) -> bool:
        """Whether the loss was detected, and all datasets that were only in the cache are restored."""
        return self.lost_count > 0 and self.restored_count == self.exposed_count

    def summary(self) -> str:
        """Describe the recovery in words."""
        if not self.lost_count:
            return "its loss has not been detected yet"
        below = max(0, self.lost_count - self.exposed_count)
        return (
            f"{format_count(self.lost_count, 'dataset')} lost: {below} are in the under-store, "
            f"{self.restored_count} of the other {self.exposed_count} are recomputed"
        )


class RecoveryMonitor:
    """Monitors the cache and the stream of words from the moment of the fault until everything has recovered.

    `exposed` are the datasets whose only copy is in the cache.
    """

    def __init__(self, settings: StreamSettings, log: MessageLog, catalog: Catalog, exposed: Collection[Ref]) -> None:
        self._settings = settings
        self._log = log
        self._catalog = catalog
        self._exposed = exposed
        self._folder = settings.folder(WORD_COUNT)
        self._results = self._count_results()
        self._recovery_seconds: dict[str, float] = {}
        self._summaries: dict[str, str] = {}
        self._fault_at = self._catalog_since = self._changed_at = 0.0

    def begin(self) -> None:
        """Record that the fault is injected now."""
        self._fault_at, self._catalog_since = time.time(), self._catalog.now()
        self._changed_at = self._fault_at

    @property
    def is_healed(self) -> bool:
        """Whether every item has recovered."""
        return set(self._recovery_seconds) == set(_THINGS)

    def poll(self, *, all_sent: bool) -> dict[str, str]:
        """Check each item and return its current state in words; `all_sent`: no more lines are sent."""
        cache_recovery = cache_recovery_since(self._catalog.history(since=self._catalog_since), self._exposed)
        self._note(CACHE, cache_recovery.is_healed, cache_recovery.summary())
        stream_status = read_status(WORD_COUNT, self._folder, time.time())
        has_restarted = stream_status.is_ready and (stream_status.started_at or 0.0) > self._fault_at
        states = len((self._folder.heartbeat() or {}).get("recovered", ())) if has_restarted else 0
        how = f"restarted by its DAG, {format_count(states, 'state')} rebuilt from the lineage and Kafka"
        self._note(STREAM, has_restarted, how if has_restarted else f"it is {format_state(stream_status)}")
        if has_restarted:
            end_offsets = {unit: extent.high for unit, extent in self._log.offset_bounds(LINES).items()}
            completeness = completeness_of(self._folder, end_offsets)
            lines_summary = (
                completeness.describe() if completeness.is_complete else f"{completeness.describe()} are not completed"
            )
            self._note(
                LINES_OF,
                all_sent and completeness.is_complete,
                f"{lines_summary}; {stream_status.tracking['failed']} failed",
            )
        if LINES_OF in self._recovery_seconds:
            difference = format_difference(
                count_words(self._values(LINES)), newest_counts(self._values(self._results_of(WORD_COUNT)))
            )
            self._note(COUNTS, not difference, difference or "every word is counted exactly once")
        return self._summaries

    def check_timeout(self, patience: float) -> None:
        """Raise `ServiceError`, naming the items that have not recovered, after `patience` seconds without progress."""
        if time.time() - self._changed_at > patience:
            unhealed = "\n".join(
                f"  {thing}: {self._summaries.get(thing, '')}"
                for thing in _THINGS
                if thing not in self._recovery_seconds
            )
            raise ServiceError(
                f"not recovered, and no progress for {patience:g} s:\n{unhealed}\n  "
                f"log of the stream: {self._folder.log_file}"
            )

    def recovered_items(self) -> list[RecoveredItem]:
        """Return how each item recovered; raises `ServiceError` if the unaffected stream lost or duplicated results.

        It may have more results than before: without input, windows are closed by the clock.
        """
        current_results = self._count_results()
        if harm := format_harm(self._results, current_results):
            raise ServiceError(f"the stream {FLIGHTS} must not be affected, but: {harm}")
        items = [RecoveredItem(thing, self._summaries[thing], self._recovery_seconds[thing]) for thing in _THINGS]
        return [
            *items,
            RecoveredItem(f"stream {FLIGHTS}", f"unaffected: {len(current_results):,} results, each emitted once", 0.0),
        ]

    def _note(self, thing: str, is_healed: bool, summary: str) -> None:
        if thing in self._recovery_seconds:
            return
        if self._summaries.get(thing) != summary:
            self._changed_at = time.time()
        self._summaries[thing] = summary
        if is_healed:
            self._recovery_seconds[thing] = time.time() - self._fault_at

    def _count_results(self) -> Counter[bytes]:
        return Counter(line for value in self._values(self._results_of(FLIGHTS)) for line in value.splitlines())

    def _results_of(self, job: str) -> str:
        return read_job(self._settings.declarations, job).results

    def _values(self, topic: str) -> Iterable[bytes]:
        for unit, extent in self._log.offset_bounds(topic).items():
            for message in self._log.fetch(topic, unit, extent.low, extent.high):
                yield bytes(message.value)


def cache_recovery_since(moments: Iterable[StateChange], exposed: Collection[Ref]) -> CacheRecovery:
    """Compute the recovery of a lost cache from the state changes that the catalog has recorded since."""
    events: dict[str, set[Ref]] = {Event.LOST: set(), Event.RESTORED: set()}
    for moment in moments:
        if moment.event in events:
            events[moment.event].add(moment.ref)
    return CacheRecovery(len(exposed), len(events[Event.LOST]), len(events[Event.RESTORED].intersection(exposed)))


def count_words(values: Iterable[bytes]) -> Counter[str]:
    """Count each word in messages of lines."""
    counts: Counter[str] = Counter()
    for value in values:
        counts.update(value.decode().split())
    return counts


def newest_counts(values: Iterable[bytes]) -> Counter[str]:
    """Return the newest count of each word in messages of results; counts only grow."""
    counts: Counter[str] = Counter()
    for value in values:
        for line in value.splitlines():
            result = json.loads(line)
            counts[result["word"]] = max(counts[result["word"]], result["count"])
    return counts


def format_difference(expected: Counter[str], actual: Counter[str]) -> str:
    """Describe the difference between expected and actual counts; empty if they are equal."""
    missing, doubled = (expected - actual).total(), (actual - expected).total()
    return f"{missing:,} word counts are missing, {doubled:,} are too high" if missing or doubled else ""


def format_harm(before: Counter[bytes], now: Counter[bytes]) -> str:
    """Describe missing and duplicate results of a stream that emits each once; empty if there are none."""
    missing, doubled = (before - now).total(), now.total() - len(now)
    return f"{format_count(missing, 'result')} missing, {doubled:,} duplicated" if missing or doubled else ""


def recovery_table(rows: Sequence[RecoveredItem]) -> Table:
    """Return a table with one row per item."""
    table = plain_table()
    table.add_column("item")
    table.add_column("recovery")
    table.add_column("after", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row.thing, row.how, format_seconds(row.seconds) if row.seconds else "")
    return table
