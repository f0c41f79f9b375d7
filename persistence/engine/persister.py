"""Persists queued generations: claims the most expensive to lose, sends data or operation, verifies, records."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.claims import Claims, LeaseLostError
from springline.persistence.decisions.priority import Policy, Score, order_by_priority
from springline.persistence.decisions.transfer import TransferPlan, plan_transfer
from springline.persistence.engine.attempt import Attempt, OutputMismatchError, Sender
from springline.persistence.engine.copier import CorruptCacheError
from springline.persistence.engine.restorer import Restorer
from springline.persistence.errors import (
    CatalogUnavailableError,
    MissingDataError,
    OperationError,
    PersistenceError,
    StorageUnavailableError,
    describe_error,
)
from springline.persistence.model.dataset import Dataset, Ref, TransferMethod
from springline.persistence.model.lineage import Lineage

logger = logging.getLogger("springline.persister")

_PAGE_SIZE = 24  # candidates by stored score; their scores are recomputed at each claim
_MAX_FAILURES = 3  # failures of one generation before the worker passes it over, until it has nothing else to do


@dataclass(frozen=True)
class TransferCandidate:
    """A generation to persist, with the plan for its transfer and the score that ranks it."""

    ref: Ref
    plan: TransferPlan
    score: Score


@dataclass(frozen=True)
class TransferOutcome:
    """Result of one transfer; `error` is empty on success, and `actual_seconds` is then the value in the catalog."""

    ref: Ref
    method: TransferMethod
    predicted_seconds: float | None
    actual_seconds: float
    error: str = ""


@dataclass
class DrainSummary:
    """Outcomes of a persister run until the queue was empty or the timeout was reached."""

    outcomes: list[TransferOutcome] = field(default_factory=list)
    remaining: int = 0

    @property
    def persisted(self) -> int:
        """Number of generations persisted."""
        return sum(not outcome.error for outcome in self.outcomes)


@dataclass
class Persister:
    """One worker on the queue; any number of workers may run, in any number of processes."""

    catalog: Catalog
    claims: Claims
    sender: Sender
    restorer: Restorer
    policy: Policy
    small_bytes: int
    retry_seconds: float
    owner: str = field(default_factory=lambda: f"persister {socket.gethostname()}:{os.getpid()}")
    sleep: Callable[[float], None] = time.sleep

    def step(self, *, passed_over: Collection[Ref] = ()) -> TransferOutcome | None:
        """Persist the next generation, unless it is `passed_over`.

        Returns None if nothing can be claimed now or the catalog is unavailable.

        The next call waits for the catalog. A generation that was claimed when the catalog became unavailable is
        claimed again after its lease expires.
        """
        try:
            return self._step(passed_over)
        except CatalogUnavailableError:
            return None

    def _step(self, passed_over: Collection[Ref]) -> TransferOutcome | None:
        for expired in self.claims.expire():
            with suppress(PersistenceError, OSError):  # the next worker that claims it sweeps too
                self.sender.sweep(expired)
        for candidate in self.candidates():
            if candidate.ref not in passed_over and (outcome := self._carry_out(candidate)) is not None:
                return outcome
        return None

    def drain(
        self, *, timeout: float = 0.0, on_outcome: Callable[[TransferOutcome], None] = lambda outcome: None
    ) -> DrainSummary:
        """Persist until the queue is empty, or nothing could be claimed for `timeout` seconds."""
        summary = DrainSummary()
        idle_since = time.monotonic()
        failures: Counter[Ref] = Counter()  # since the worker was last idle
        while True:
            outcome = self.step(passed_over={ref for ref, count in failures.items() if count >= _MAX_FAILURES})
            if outcome is not None:
                summary.outcomes.append(outcome)
                on_outcome(outcome)
                if outcome.error:
                    failures[outcome.ref] += 1
                else:
                    idle_since = time.monotonic()
                continue
            failures = Counter(dict.fromkeys(failures, _MAX_FAILURES - 1))  # each is tried once more after a pause
            timed_out = time.monotonic() - idle_since >= timeout
            try:
                summary.remaining = self.claims.depth()
            except CatalogUnavailableError:
                if timed_out:
                    raise
                summary.remaining = 1  # at least; the catalog cannot be asked
            if not summary.remaining or timed_out:
                return summary
            self.sleep(min(0.5, timeout))

    def candidates(self) -> Iterator[TransferCandidate]:
        """Yield the generations that may be claimed now, highest priority first; those that must wait are left out."""
        offset = 0
        while refs := self.claims.list_claimable(_PAGE_SIZE, offset):
            offset += _PAGE_SIZE
            lineage = self.catalog.lineage_around(refs, down=not self.policy.local)
            costs = self.catalog.load_cost_model(lineage)
            now = self.catalog.now()
            for ref, score in order_by_priority(refs, lineage, costs, self.policy, now):
                plan = plan_transfer(ref, lineage, costs, small_bytes=self.small_bytes)
                if not self._must_wait(plan, lineage):
                    yield TransferCandidate(ref, plan, score)

    @staticmethod
    def _must_wait(plan: TransferPlan, lineage: Lineage) -> bool:
        """Whether the transfer is an operation whose sources are still to be persisted."""
        sources = [lineage.datasets[ref] for ref in lineage.datasets[plan.ref].sources if ref in lineage.datasets]
        return plan.method is TransferMethod.OPERATION and any(
            source.persist_requested and not source.persisted for source in sources
        )

    def _carry_out(self, candidate: TransferCandidate) -> TransferOutcome | None:
        """Attempt the transfer of a candidate; returns None if another worker was first."""
        started_at = time.monotonic()
        ref, plan = candidate.ref, candidate.plan
        method, predicted = plan.method, plan.predicted.seconds if plan.predicted else None
        seconds: float | None = None
        error = ""
        try:
            with self.sender.attempt(ref, self.owner, method, predicted, pause=self.retry_seconds) as attempt:
                if attempt is None:
                    return None
                persisted = self._send(self.catalog.get(ref), plan, attempt)
                method, seconds = persisted.method or method, persisted.actual_seconds
        except CatalogUnavailableError:
            raise
        except PersistenceError as failure:
            error = str(failure)
        except Exception as failure:  # whatever a store raises fails this transfer, not the queue
            logger.exception("%s: %s", ref, method)
            error = describe_error(failure)
        if method is not plan.method:
            predicted = plan.data.seconds if plan.data else None
        return TransferOutcome(
            ref, method, predicted, time.monotonic() - started_at if seconds is None else seconds, error
        )

    def _send(self, dataset: Dataset, plan: TransferPlan, attempt: Attempt) -> Dataset:
        """Send as planned, or as data if sending the operation fails; returns the dataset as recorded then."""
        try:
            return self._send_operation(dataset, plan, attempt) or self._send_data(dataset, plan, attempt)
        except (MissingDataError, CorruptCacheError) as error:
            if self._is_lost(dataset.ref):
                attempt.pause = 0.0  # the next worker recomputes it
            raise MissingDataError(f"its cached files are missing or damaged: {error}") from error

    def _send_operation(self, dataset: Dataset, plan: TransferPlan, attempt: Attempt) -> Dataset | None:
        """Send the operation if planned; returns None if data has to be sent, also after a failure."""
        if plan.method is not TransferMethod.OPERATION or not dataset.digest:
            return None
        sources = self.catalog.get_all(dataset.sources)
        if not all(source.persisted for source in sources):
            return None
        try:
            return attempt.send_operation(dataset, sources)
        except OutputMismatchError:
            self.restorer.mark_nondeterministic(dataset, sources)
        except OperationError:
            verified = [self.restorer.verifier.verify(source, deep=True) for source in sources]
            if not dataset.in_cache and all(source.persisted for source in verified):
                raise
        return None

    def _send_data(self, dataset: Dataset, plan: TransferPlan, attempt: Attempt) -> Dataset:
        """Send the cached bytes, recomputing them first if they were lost."""
        if not dataset.in_cache:
            self.restorer.ensure_cached([dataset.ref], sending=dataset.ref)
            dataset = self.catalog.get(dataset.ref)
            if not dataset.in_cache:
                raise LeaseLostError(f"{dataset.ref}: the lease expired, and the cached files were evicted since")
        if plan.method is TransferMethod.OPERATION:
            attempt.change_method(TransferMethod.DATA, plan.data.seconds if plan.data else None)
        return attempt.send_data(dataset)

    def _is_lost(self, ref: Ref) -> bool:
        """Verify again and mark as lost if missing: another worker may have moved the bytes in the meantime."""
        try:
            return not self.restorer.verifier.verify(self.catalog.get(ref), deep=True).in_cache
        except StorageUnavailableError:
            return False
