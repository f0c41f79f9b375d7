"""Persists what waits: claims the dearest to lose, sends its data or its operation, verifies, records."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from persistence.catalog import Catalog
from persistence.claims import Claims, Lease, LeaseLost
from persistence.errors import (
    DamagedCopy,
    Irrecoverable,
    OperationFailed,
    StorageFull,
    StorageUnavailable,
)
from persistence.lineage import Lineage
from persistence.model import Cache, Dataset, Method, Ref
from persistence.priority import Policy, Score
from persistence.restoring import Restorer
from persistence.sending import CacheDamaged, OutputDiffers, Sender
from persistence.transfer import TransferPlan, decide
from persistence.transitions import Event

_PAGE = 24  # candidates by stored score whose score is worked out again at each claim


@dataclass(frozen=True)
class Choice:
    """What is persisted next, how, and why it comes first."""

    ref: Ref
    plan: TransferPlan
    score: Score


@dataclass(frozen=True)
class Outcome:
    """What came of one transfer; `error` is empty where it went well."""

    ref: Ref
    method: Method
    predicted_seconds: float | None
    actual_seconds: float
    error: str = ""


@dataclass
class Summary:
    """What a persister did until the queue was empty, or its patience at an end."""

    outcomes: list[Outcome] = field(default_factory=list)
    left: int = 0

    @property
    def persisted(self) -> int:
        """How many generations were persisted."""
        return sum(not outcome.error for outcome in self.outcomes)


@dataclass
class Persister:
    """One worker on the queue; any number of them may run, in any number of processes."""

    catalog: Catalog
    claims: Claims
    sender: Sender
    restorer: Restorer
    policy: Policy
    small_bytes: int
    retry_seconds: float
    owner: str = field(default_factory=lambda: f"persister {socket.gethostname()}:{os.getpid()}")
    sleep: Callable[[float], None] = time.sleep

    def step(self) -> Outcome | None:
        """Persist the next generation; None if nothing can be claimed now."""
        for expired in self.claims.expire():
            self.sender.sweep(expired)
        for choice in self.choices():
            predicted = choice.plan.predicted.seconds if choice.plan.predicted else None
            lease = self.claims.claim(choice.ref, self.owner, choice.plan.method, predicted)
            if lease is not None:
                return self._carry_out(choice, lease, predicted)
        return None

    def drain(self, *, patience: float = 0.0, told: Callable[[Outcome], None] = lambda outcome: None) -> Summary:
        """Persist until the queue is empty, or nothing could be claimed for `patience` seconds."""
        summary = Summary()
        idle_since = time.monotonic()
        while True:
            outcome = self.step()
            if outcome is not None:
                summary.outcomes.append(outcome)
                told(outcome)
                if not outcome.error:
                    idle_since = time.monotonic()
                    continue
            summary.left = self.claims.depth()
            if not summary.left or time.monotonic() - idle_since >= patience:
                return summary
            self.sleep(min(0.5, patience))

    def choices(self) -> Iterator[Choice]:
        """What may be claimed now, the first first; what waits for something else is left out."""
        offset = 0
        while refs := self.claims.waiting(_PAGE, offset):
            offset += _PAGE
            lineage = self.catalog.lineage_around(refs, down=not self.policy.local)
            costs = self.catalog.costs(lineage)
            now = self.catalog.now()
            scored = [(ref, self.policy.score(ref, lineage, costs, now)) for ref in refs]
            scored.sort(key=lambda pair: (not lineage.datasets[pair[0]].head, -pair[1].value, pair[0]))
            for ref, score in scored:
                plan = decide(ref, lineage, costs, small_bytes=self.small_bytes)
                if not self._waits(plan, lineage):
                    yield Choice(ref, plan, score)

    def _waits(self, plan: TransferPlan, lineage: Lineage) -> bool:
        """A source that wants persisting itself will be persisted; all else the worker brings about."""
        return any(
            ref != plan.ref and (d := lineage.datasets.get(ref)) is not None and d.available and not d.persisted
            and d.wanted
            for ref in plan.waits_for
        )  # fmt: skip

    def _carry_out(self, choice: Choice, lease: Lease, predicted: float | None) -> Outcome:
        begun = time.monotonic()
        method = choice.plan.method
        error = ""
        try:
            method = self._send(self.catalog.get(choice.ref), method, lease)
        except LeaseLost as lost:
            error = str(lost)
        except (FileNotFoundError, CacheDamaged) as lost:
            error = f"its cached bytes are gone: {lost}"
            self._lost(choice.ref, lease, error)
        except Irrecoverable as lost:
            error = str(lost)
            self.claims.release(lease, error)
            self.catalog.amend(choice.ref, event="given up", why=error, wanted=False, error=error)
        except (StorageUnavailable, StorageFull, DamagedCopy, OperationFailed) as failure:
            error = str(failure)
            attempts = self.catalog.get(choice.ref).attempts
            self.claims.release(lease, error, pause=self.retry_seconds, attempts=attempts)
        except BaseException as failure:
            self.claims.release(lease, f"{type(failure).__name__}: {failure}", pause=self.retry_seconds)
            raise
        return Outcome(choice.ref, method, predicted, time.monotonic() - begun, error)

    def _send(self, dataset: Dataset, method: Method, lease: Lease) -> Method:
        """Send by `method`, and by data where the operation turns out not to do; returns what was sent."""
        if method is Method.OPERATION and dataset.digest:
            sources = self.catalog.get_all(dataset.sources)
            if all(source.persisted for source in sources):
                try:
                    self.sender.send_operation(dataset, lease, sources)
                    return Method.OPERATION
                except OutputDiffers as lie:
                    assert dataset.call is not None
                    self.catalog.saw_repeat(dataset.call, same=False)
                    if not dataset.in_cache:
                        raise Irrecoverable(str(lie)) from lie
                except OperationFailed:
                    if not dataset.in_cache:
                        raise
        if not dataset.in_cache:
            self.restorer.demand([dataset.ref])
            dataset = self.catalog.get(dataset.ref)
        self.sender.send_data(dataset, lease)
        return Method.DATA

    def _lost(self, ref: Ref, lease: Lease, why: str) -> None:
        dataset = self.catalog.get(ref)
        if dataset.cache is Cache.PRESENT:
            self.catalog.change(ref, Event.LOST, why=why)
        self.claims.release(lease, why)
