"""Whether a fault is healed: what the catalog, the heartbeat and the topics tell of it; nothing here mends anything."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table

from springline.persistence.catalog.catalog import Catalog
from springline.persistence.model.dataset import Moment, Ref
from springline.persistence.model.transitions import Event
from springline.persistence.text.formatting import counted, say_seconds
from springline.persistence.text.tables import plain_table
from springline.services.demo.streams import FLIGHTS, LINES, WORDS, say_state
from springline.services.errors import ServiceError
from springline.spark_jobs.streaming.application.status import look
from springline.spark_jobs.streaming.jobs import job_of
from springline.spark_jobs.streaming.runtime.message_log import Log
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.tracking.completeness import completeness_of

CACHE, STREAM, LINES_OF, COUNTS = "cache", f"stream {WORDS}", f"lines of {WORDS}", f"counts of {WORDS}"
_THINGS = (CACHE, STREAM, LINES_OF, COUNTS)


@dataclass(frozen=True)
class Healing:
    """One thing that was harmed: how it came back, and after how many seconds."""

    thing: str
    how: str
    seconds: float


@dataclass(frozen=True)
class Lost:
    """What the catalog knows of a lost cache: what is found missing, and what is back of that which was only there."""

    exposed: int
    lost: int
    back: int

    @property
    def healed(self) -> bool:
        """Whether the loss is known, and all that was nowhere else is back."""
        return self.lost > 0 and self.back == self.exposed

    def say(self) -> str:
        """In words."""
        if not self.lost:
            return "nobody has noticed its loss yet"
        below = max(0, self.lost - self.exposed)
        return (
            f"{counted(self.lost, 'dataset')} found lost: {below} are in the under-store, "
            f"{self.back} of the other {self.exposed} are made again"
        )


class Damage:
    """What a fault does to the cache and to the stream of words, looked at from its beginning until all is healed.

    `exposed` are the datasets whose only bytes are in the cache.
    """

    def __init__(self, settings: StreamSettings, log: Log, catalog: Catalog, exposed: Collection[Ref]) -> None:
        self._settings = settings
        self._log = log
        self._catalog = catalog
        self._exposed = exposed
        self._folder = settings.folder(WORDS)
        self._results = self._told_results()
        self._after: dict[str, float] = {}
        self._told: dict[str, str] = {}
        self._at = self._since = self._changed_at = 0.0

    def begin(self) -> None:
        """Note that the fault comes now."""
        self._at, self._since = time.time(), self._catalog.now()
        self._changed_at = self._at

    @property
    def healed(self) -> bool:
        """Whether everything is."""
        return set(self._after) == set(_THINGS)

    def look(self, *, fed: bool) -> dict[str, str]:
        """How each thing is by now, in words; `fed`: no more lines are sent."""
        lost = lost_since(self._catalog.history(since=self._since), self._exposed)
        self._note(CACHE, lost.healed, lost.say())
        seen = look(WORDS, self._folder, time.time())
        again = seen.works and (seen.began or 0.0) > self._at
        states = len((self._folder.heartbeat() or {}).get("rebuilt", ())) if again else 0
        how = f"its DAG has started it again, {counted(states, 'state')} rebuilt from the lineage and Kafka"
        self._note(STREAM, again, how if again else f"it is {say_state(seen)}")
        if again:
            wanted = {unit: extent.high for unit, extent in self._log.extents(LINES).items()}
            through = completeness_of(self._folder, wanted)
            told = through.say() if through.through else f"{through.say()} are not through"
            self._note(LINES_OF, fed and through.through, f"{told}; {seen.tracking['gone']} given up")
        if LINES_OF in self._after:
            wrong = say_difference(words_in(self._values(LINES)), counts_told(self._values(self._results_of(WORDS))))
            self._note(COUNTS, not wrong, wrong or "every word of every line is counted once")
        return self._told

    def give_up(self, patience: float) -> None:
        """Raise `ServiceError`, naming what is not healed, once nothing has healed further for `patience` seconds."""
        if time.time() - self._changed_at > patience:
            left = "\n".join(f"  {thing}: {self._told.get(thing, '')}" for thing in _THINGS if thing not in self._after)
            raise ServiceError(
                f"not healed, and no further for {patience:g} s:\n{left}\n  log of the stream: {self._folder.log_file}"
            )

    def healing(self) -> list[Healing]:
        """How everything came back; raises `ServiceError` if the stream that was not harmed lost or doubled results.

        There may be more of them than before: where nothing comes, windows close with the clock.
        """
        now = self._told_results()
        if wrong := say_harm(self._results, now):
            raise ServiceError(f"the stream {FLIGHTS} was not to be harmed: {wrong}")
        found = [Healing(thing, self._told[thing], self._after[thing]) for thing in _THINGS]
        return [*found, Healing(f"stream {FLIGHTS}", f"was not touched: {len(now):,} results, each told once", 0.0)]

    def _note(self, thing: str, healed: bool, words: str) -> None:
        if thing in self._after:
            return
        if self._told.get(thing) != words:
            self._changed_at = time.time()
        self._told[thing] = words
        if healed:
            self._after[thing] = time.time() - self._at

    def _told_results(self) -> Counter[bytes]:
        return Counter(line for value in self._values(self._results_of(FLIGHTS)) for line in value.splitlines())

    def _results_of(self, job: str) -> str:
        return job_of(self._settings.declarations, job).results

    def _values(self, topic: str) -> Iterable[bytes]:
        for unit, extent in self._log.extents(topic).items():
            for message in self._log.fetch(topic, unit, extent.low, extent.high):
                yield bytes(message.value)


def lost_since(moments: Iterable[Moment], exposed: Collection[Ref]) -> Lost:
    """What became of a lost cache, from what the catalog logged since."""
    events: dict[str, set[Ref]] = {Event.LOST: set(), Event.RESTORED: set()}
    for moment in moments:
        if moment.event in events:
            events[moment.event].add(moment.ref)
    return Lost(len(exposed), len(events[Event.LOST]), len(events[Event.RESTORED].intersection(exposed)))


def words_in(values: Iterable[bytes]) -> Counter[str]:
    """How often each word comes in messages of lines."""
    found: Counter[str] = Counter()
    for value in values:
        found.update(value.decode().split())
    return found


def counts_told(values: Iterable[bytes]) -> Counter[str]:
    """The newest count of each word, from messages of results; counts only grow."""
    found: Counter[str] = Counter()
    for value in values:
        for line in value.splitlines():
            told = json.loads(line)
            found[told["word"]] = max(found[told["word"]], told["count"])
    return found


def say_difference(wanted: Counter[str], told: Counter[str]) -> str:
    """By how much counts are wrong, in words; empty if they are right."""
    missing, doubled = (wanted - told).total(), (told - wanted).total()
    return f"{missing:,} words are not told yet, {doubled:,} are told too often" if missing or doubled else ""


def say_harm(before: Counter[bytes], now: Counter[bytes]) -> str:
    """What became of results that are told once each, in words; empty if all are there, and none twice."""
    gone, doubled = (before - now).total(), now.total() - len(now)
    return f"{counted(gone, 'result')} gone, {doubled:,} told again" if gone or doubled else ""


def healing_table(rows: Sequence[Healing]) -> Table:
    """One row a thing."""
    table = plain_table()
    table.add_column("what")
    table.add_column("how it came back")
    table.add_column("after", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row.thing, row.how, say_seconds(row.seconds) if row.seconds else "")
    return table
