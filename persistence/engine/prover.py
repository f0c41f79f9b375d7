"""Proves operations idempotent: runs them a second time while the platform is idle, and compares the digests."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from enum import StrEnum

from sqlalchemy import and_, func, select

from springline.persistence.backends.copy_layout import restored_copy_location
from springline.persistence.backends.spec import Backend, UnderStore
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.claims import Claims
from springline.persistence.catalog.lease_renewal import renewal
from springline.persistence.catalog.proof_claims import ProofClaims, ProofLease
from springline.persistence.catalog.schema import db_now, generation, is_open
from springline.persistence.decisions.proof import ProofPlan, ProofThresholds, plan_proofs
from springline.persistence.engine.replacement import Replacement
from springline.persistence.engine.restorer import Restorer
from springline.persistence.engine.runner import Interruptible, Runner
from springline.persistence.errors import (
    CatalogUnavailableError,
    MissingDataError,
    PersistenceError,
    describe_error,
)
from springline.persistence.model.dataset import Dataset, Ref
from springline.persistence.text.formatting import format_count, format_seconds

logger = logging.getLogger("springline.prover")

_WATCH_SECONDS = 1.0  # interval between two checks for generations to persist


class ProofVerdict(StrEnum):
    """Verdict of a second run."""

    PROVEN = "proven"
    NONDETERMINISTIC = "nondeterministic"  # it gave a different digest
    INTERRUPTED = "interrupted"  # a generation had to be persisted
    FAILED = "failed"  # inconclusive about the operation


@dataclass(frozen=True)
class ProofOutcome:
    """The outcome of one second run; `summary` is a sentence for people."""

    operation: str
    version: str
    witness: Ref
    verdict: ProofVerdict
    seconds: float
    summary: str


@dataclass
class Prover:
    """One proving worker; any number may run, and each version of an operation is proven by one of them."""

    catalog: Catalog
    claims: Claims
    proofs: ProofClaims
    cache: Backend
    under: UnderStore
    runner: Runner
    replacement: Replacement
    restorer: Restorer
    thresholds: ProofThresholds
    reader_seconds: float
    enabled: bool = True
    poll_seconds: float = 10.0  # interval between two checks, after one that found nothing to prove
    quiet_seconds: float = 30.0  # after the last commit, so that no proof starts between two tasks of a DAG run
    owner: str = field(default_factory=lambda: f"prover {socket.gethostname()}:{os.getpid()}")
    clock: Callable[[], float] = time.monotonic
    _next_poll_at: float = float("-inf")

    def plan(
        self, thresholds: ProofThresholds | None = None, *, only: Collection[tuple[str, str]] | None = None
    ) -> tuple[ProofPlan, ...]:
        """Return the planned proofs in order.

        `thresholds` overrides those of the settings; `only`: of the operations with these names and versions.
        """
        lineage = self.proofs.load_candidates(only)
        free_bytes = self.replacement.capacity - self.catalog.cache_used()
        return plan_proofs(lineage, self.catalog.load_cost_model(lineage), thresholds or self.thresholds, free_bytes)

    def step(self) -> ProofOutcome | None:
        """Prove the next operation if the platform is idle; returns None if it is busy or there is nothing to prove."""
        if not self.enabled or self.clock() < self._next_poll_at:
            return None
        self._next_poll_at = self.clock() + self.poll_seconds
        try:
            self.sweep()
            proof = None if self.is_busy() else self._prove_first()
        except CatalogUnavailableError:
            return None
        if proof is not None:
            self._next_poll_at = float("-inf")
        return proof

    def is_busy(self) -> bool:
        """Whether any generation is to be persisted, is being written, or was just committed."""
        newest = generation.c.commit_number == select(func.max(generation.c.commit_number)).scalar_subquery()
        just_written = and_(newest, generation.c.committed_at > db_now() - self.quiet_seconds)
        return bool(self.claims.depth()) or any(
            self.catalog.select(select(generation.c.id).where(condition).limit(1))
            for condition in (is_open, just_written)
        )

    def sweep(self) -> None:
        """Remove the scratch copies of dead provers and release their claims, with a pause."""
        for lease in self.proofs.expired_leases():
            with suppress(PersistenceError):  # the next check tries again
                self.cache.delete(lease.scratch)
                self.proofs.release(lease, "the worker that ran it a second time stopped responding", failed=True)

    def prove(self, plan: ProofPlan, *, interruptible: bool = True) -> ProofOutcome | None:
        """Run the operation a second time and compare; returns None if another worker proves it, or it is paused.

        With `interruptible` the run is interrupted when a generation is to be persisted.
        Raises `CatalogUnavailableError`.
        """
        scratch = restored_copy_location(plan.witness)
        lease = self.proofs.claim(plan.operation, plan.version, self.owner, scratch)
        if lease is None:
            return None
        started_at = self.clock()
        failed, error = False, "its process ended"
        try:
            with self._renewing(lease, interruptible=interruptible) as must_stop:
                try:
                    verdict, summary = self._compare(plan, scratch)
                    error = summary if verdict is ProofVerdict.FAILED else ""
                except CatalogUnavailableError:
                    raise
                except PersistenceError as failure:
                    verdict = ProofVerdict.INTERRUPTED if must_stop.is_set() else ProofVerdict.FAILED
                    error = "a dataset was queued for persisting" if must_stop.is_set() else str(failure)
                    summary = f"{plan.operation} could not be run a second time: {error}"
                except Exception as failure:  # whatever a store or a runner raises fails this proof only
                    logger.exception("%s", plan.operation)
                    verdict, error = ProofVerdict.FAILED, describe_error(failure)
                    summary = f"{plan.operation} could not be run a second time: {error}"
                failed = verdict is ProofVerdict.FAILED
        finally:
            with suppress(PersistenceError):  # the error that stopped it matters more; `sweep` retries both
                self.cache.delete(scratch)
                self.proofs.release(lease, error, failed=failed)
        log = logger.warning if verdict in (ProofVerdict.NONDETERMINISTIC, ProofVerdict.FAILED) else logger.info
        log("%s", summary)
        return ProofOutcome(plan.operation, plan.version, plan.witness, verdict, self.clock() - started_at, summary)

    def _prove_first(self) -> ProofOutcome | None:
        """Prove the first planned operation whose code is available and which no other worker is proving."""
        operations = self.runner.operations()
        for plan in self.plan():
            is_runnable = plan.operation in operations and operations[plan.operation].version == plan.version
            if is_runnable and not plan.waits_for and (proof := self.prove(plan)) is not None:
                return proof
        return None

    def _compare(self, plan: ProofPlan, scratch: str) -> tuple[ProofVerdict, str]:
        """Recompute the witness in `scratch` and record whether the digest is the same."""
        dataset = self.catalog.get(plan.witness)
        call = dataset.call
        assert call is not None  # otherwise it would not be the output of an operation
        with ExitStack() as holds:
            for source in dict.fromkeys(dataset.sources):
                holds.enter_context(self.catalog.hold_for_reading(source, self.reader_seconds, counts_as_read=False))
            sources = [self.restorer.verifier.verify(source) for source in self.catalog.get_all(dataset.sources)]
            result = self.runner.run(call, [self._uri(source) for source in sources], self.cache.uri(scratch))
            subject = f"{call.name} (version {call.version}) was run a second time to recompute {dataset.ref}"
            if result.digest == dataset.digest:
                self.catalog.record_reproduction(call, same=True)
                duration = format_seconds(result.seconds)
                summary = f"{subject} and returned the same digest, in {duration}: it is proven idempotent"
                self.catalog.amend(dataset.ref, event="proven", reason=summary)
                return ProofVerdict.PROVEN, summary
            expedited = self.restorer.mark_nondeterministic(dataset, sources)
        if expedited is None:
            return ProofVerdict.FAILED, f"{subject}, but a source was damaged or missing: the run proves nothing"
        summary = (
            f"{subject} and gave another digest: it is not idempotent, whatever it was declared; "
            f"{format_count(len(expedited), 'dataset')} that waited went to the head of the queue"
        )
        self.catalog.amend(dataset.ref, event="nondeterministic", reason=summary)
        return ProofVerdict.NONDETERMINISTIC, summary

    def _uri(self, source: Dataset) -> str:
        if not source.available:
            raise MissingDataError(f"{source.ref} is missing")
        return self.cache.uri(source.cache_location) if source.in_cache else self.under.uri(source.under_location)

    def _renewing(self, lease: ProofLease, *, interruptible: bool) -> AbstractContextManager[threading.Event]:
        """Renew the lease inside the block; once it is lost or must yield, set the event and interrupt the run."""

        def may_continue() -> bool:
            return self.proofs.renew(lease) and not (interruptible and self.claims.list_claimable(1))

        def interrupt() -> None:
            if isinstance(self.runner, Interruptible):
                try:
                    self.runner.interrupt()
                except Exception:  # raised by the runner: renewal continues, and the interrupt is retried
                    logger.warning("the proof of %s could not be interrupted", lease.operation, exc_info=True)

        interval = min(_WATCH_SECONDS, self.proofs.lease_seconds / 3)
        return renewal(may_continue, interval, f"proof of {lease.operation}", interrupt=interrupt)
