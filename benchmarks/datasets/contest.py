"""One trial of a contest: the workload under one side's way of persisting, perhaps with the cache lost on the way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.datasets.workload import IN_ORDER
from springline.persistence.errors import PersistenceError
from springline.spark_jobs.operations import OperationRegistry

SAMPLE_SECONDS = 0.25
_TRIES = 3  # of one operation around the loss, as Airflow would
_PATIENCE = 300.0  # seconds for everything to be persisted once the run has ended


class Side(Protocol):
    """A way of writing and persisting the outputs of operations, which are called by the operations' names."""

    name: str
    persists: bool  # whether everything is in the under-store in the end

    def make(self, operation: str) -> str:
        """Run an operation on the outputs of others, in place of its earlier output; returns the rows' digest."""

    def waiting(self) -> Mapping[str, int]:
        """The bytes of each output that are not in the under-store yet; outputs that are left out have none."""

    def lost(self) -> Collection[str]:
        """The outputs of which some bytes are nowhere."""

    def bring_back(self, lost: Sequence[str]) -> Collection[str]:
        """Have lost outputs again, in order; returns those for which that cannot be done."""


@dataclass(frozen=True)
class Recipe:
    """What decides whether an output can be recomputed."""

    idempotent: bool
    sources: tuple[str, ...]


@dataclass
class TrialResult:
    """What a trial saw; bytes and seconds."""

    side: str
    run_seconds: float = 0.0
    drain_seconds: float | None = None
    at_risk: float = 0.0  # byte-seconds
    irrecoverable_at_risk: float = 0.0  # of these, of what nothing could make again
    most_at_risk: int = 0
    struck_at: float | None = None
    away_seconds: float = 0.0
    finished: int = 0  # outputs, when the cache had come back
    lost: list[str] = field(default_factory=list)
    lost_for_good: list[str] = field(default_factory=list)
    recovery_seconds: float = 0.0
    digests: dict[str, str] = field(default_factory=dict)


def recipes_of(registry: OperationRegistry) -> dict[str, Recipe]:
    """How the workload's outputs are made, in order."""
    declared = {name: registry.get(name) for name in IN_ORDER}
    maker = {each.output: name for name, each in declared.items()}
    return {
        name: Recipe(each.idempotent, tuple(maker[source] for source in each.sources.values()))
        for name, each in declared.items()
    }


def irrecoverable(lost: Collection[str], recipes: Mapping[str, Recipe]) -> list[str]:
    """Those of the lost outputs that nothing could make again; pure.

    Such is the output of an operation that is not idempotent, and what was made from such a one.
    """
    names: list[str] = []
    for name, recipe in recipes.items():
        if name in lost and (not recipe.idempotent or any(source in names for source in recipe.sources)):
            names.append(name)
    return names


class Strike:
    """The loss of the cache at a moment of the run, in a thread of its own: `kill`, then `start` again.

    `pause` waits so many seconds and answers whether the strike is not wanted any more.
    """

    def __init__(
        self,
        at: float,
        kill: Callable[[], None],
        start: Callable[[], None],
        pause: Callable[[float], bool] | None = None,
    ) -> None:
        self.at = at
        self.happened = threading.Event()
        self.away_seconds = 0.0
        self._kill = kill
        self._start = start
        self._over = threading.Event()
        self._cancelled = threading.Event()
        self._pause = pause or self._cancelled.wait
        self._failure: Exception | None = None

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """It happens after so many seconds; outside it does not happen any more."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._cancelled.set()
            thread.join()

    def wait(self) -> None:
        """Return when the cache is there again."""
        self._over.wait()
        if self._failure:
            raise RuntimeError("the cache could not be killed and started again") from self._failure

    def _run(self) -> None:
        if self._pause(self.at):
            return
        started_at = time.monotonic()
        self.happened.set()
        try:
            self._kill()
            self._start()
        except Exception as error:
            self._failure = error
        self.away_seconds = time.monotonic() - started_at
        self._over.set()


class Trial:
    """The workload under one side, once.

    Without a strike, what is at risk is sampled. After one no operation begins until the cache is there
    again and what was lost has been recomputed. What is irrecoverable is recomputed too, by operations that are
    not to be run twice: so every run ends, and recoveries can be compared.
    """

    def __init__(self, side: Side, recipes: Mapping[str, Recipe], strike: Strike | None = None) -> None:
        self._side = side
        self._recipes = recipes
        self._strike = strike
        self._result = TrialResult(side.name)

    def run(self) -> TrialResult:
        """Run all operations in order, then wait until all is persisted."""
        result, strike = self._result, self._strike
        started_at = time.monotonic()
        with strike.awaited() if strike else self._sampled():
            for name in self._recipes:
                self._make(name)
            result.run_seconds = time.monotonic() - started_at
            if self._strike:
                self._recover(self._strike)
            if self._side.persists:
                ended = time.monotonic()
                self._drain(ended + _PATIENCE)
                result.drain_seconds = time.monotonic() - ended
        return result

    def _make(self, name: str) -> None:
        for left in reversed(range(_TRIES)):
            failed = False
            try:
                self._result.digests[name] = self._side.make(name)
            except (PersistenceError, FileNotFoundError):
                failed = True
                if not left or not (self._strike_happened() or self._result.struck_at):
                    raise
            if self._strike and self._strike_happened():
                self._recover(self._strike)
            if not failed:
                return

    def _strike_happened(self) -> bool:
        return self._strike is not None and self._strike.happened.is_set()

    def _recover(self, strike: Strike) -> None:
        strike.wait()
        result, self._strike = self._result, None
        result.struck_at, result.away_seconds, result.finished = strike.at, strike.away_seconds, len(result.digests)
        started_at = time.monotonic()
        for left in reversed(range(_TRIES)):
            try:
                self._bring_back()
                break
            except (PersistenceError, FileNotFoundError):  # more was lost than the side knew of just after the strike
                if not left:
                    raise
                time.sleep(SAMPLE_SECONDS)
        result.recovery_seconds = time.monotonic() - started_at if result.lost else 0.0

    def _bring_back(self) -> None:
        result, lost = self._result, set(self._side.lost())
        lost_now = [name for name in result.digests if name in lost]
        irrecoverable_now = irrecoverable(lost_now, self._recipes)
        result.lost += [name for name in lost_now if name not in result.lost]
        result.lost_for_good += [name for name in irrecoverable_now if name not in result.lost_for_good]
        for name in irrecoverable_now:
            self._side.make(name)
        for name in self._side.bring_back([name for name in lost_now if name not in irrecoverable_now]):
            self._side.make(name)
            result.lost_for_good.append(name)

    def _drain(self, until: float) -> None:
        while waiting := self._side.waiting():
            if time.monotonic() > until:
                raise RuntimeError(f"{self._side.name}: not persisted after {_PATIENCE:.0f} s: {dict(waiting)}")
            time.sleep(SAMPLE_SECONDS)

    @contextmanager
    def _sampled(self) -> Iterator[None]:
        """Add up what is at risk while inside."""
        end = threading.Event()
        failures: list[Exception] = []

        def sample() -> None:
            at, sizes = time.monotonic(), dict[str, int]()
            while not end.wait(SAMPLE_SECONDS):
                try:
                    new_sizes = {
                        name: size for name, size in self._side.waiting().items() if name in self._result.digests
                    }
                except Exception as error:
                    failures.append(error)
                    return
                now = time.monotonic()
                self._count(sizes, now - at)
                at, sizes = now, new_sizes

        thread = threading.Thread(target=sample, daemon=True)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()
        if failures:
            raise RuntimeError(f"{self._side.name}: what is at risk could not be sampled") from failures[0]

    def _count(self, sizes: Mapping[str, int], seconds: float) -> None:
        result = self._result
        waiting = sum(sizes.values())
        result.at_risk += waiting * seconds
        result.irrecoverable_at_risk += sum(sizes[name] for name in irrecoverable(sizes, self._recipes)) * seconds
        result.most_at_risk = max(result.most_at_risk, waiting)
