"""Proves operations: runs them a second time while nothing else is to be done, and compares the digests."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from enum import StrEnum

from sqlalchemy import and_, func, select

from springline.persistence.backends.copy_layout import half_of, restored_place
from springline.persistence.backends.spec import Backend
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.claims import Claims
from springline.persistence.catalog.lease_renewal import renewal
from springline.persistence.catalog.proof_claims import ProofClaims, ProofLease
from springline.persistence.catalog.schema import being_written, db_now, generation
from springline.persistence.decisions.proof import Bounds, ProofPlan, plan_proofs
from springline.persistence.engine.replacement import Replacement
from springline.persistence.engine.restorer import Restorer
from springline.persistence.engine.runner import Interruptible, Runner
from springline.persistence.errors import (
    CatalogUnavailableError,
    MissingDataError,
    PersistenceError,
    StorageUnavailableError,
)
from springline.persistence.model.dataset import Dataset, Ref
from springline.persistence.text.formatting import counted, say_seconds

logger = logging.getLogger("springline.prover")

_WATCH_SECONDS = 1.0  # between two looks whether something waits to be persisted


class Verdict(StrEnum):
    """What came of a second run."""

    PROVEN = "proven"
    UNMASKED = "unmasked"  # it gave another digest
    INTERRUPTED = "interrupted"  # something came to be persisted
    FAILED = "failed"  # it says nothing about the operation


@dataclass(frozen=True)
class Proof:
    """The outcome of one second run; `words` says it to a person."""

    operation: str
    version: str
    witness: Ref
    verdict: Verdict
    seconds: float
    words: str


@dataclass
class Prover:
    """One worker that proves; any number may work, each operation's version is proven by one of them."""

    catalog: Catalog
    claims: Claims
    proofs: ProofClaims
    cache: Backend
    under: Backend
    runner: Runner
    replacement: Replacement
    restorer: Restorer
    bounds: Bounds
    reader_seconds: float
    enabled: bool = True
    look_seconds: float = 10.0  # between two looks, where the last one found nothing to prove
    quiet_seconds: float = 30.0  # after the last commit, so that nothing runs between two tasks of a DAG run
    owner: str = field(default_factory=lambda: f"prover {socket.gethostname()}:{os.getpid()}")
    clock: Callable[[], float] = time.monotonic
    _look_at: float = float("-inf")

    def plan(self, bounds: Bounds | None = None) -> tuple[ProofPlan, ...]:
        """The proofs to come, that which is run first first; `bounds`: those of the settings, unless given."""
        lineage = self.proofs.candidates()
        room = self.replacement.capacity - self.catalog.cache_used()
        return plan_proofs(lineage, self.catalog.costs(lineage), bounds or self.bounds, room)

    def step(self) -> Proof | None:
        """Prove the next operation while the machine is idle; None if there is none, or something else to do."""
        if not self.enabled or self.clock() < self._look_at:
            return None
        self._look_at = self.clock() + self.look_seconds
        try:
            self.sweep()
            proof = None if self.busy() else self._first()
        except CatalogUnavailableError:
            return None
        if proof is not None:
            self._look_at = float("-inf")
        return proof

    def busy(self) -> bool:
        """Whether anything is to be persisted, or anybody is writing, or has just written."""
        newest = generation.c.commit_number == select(func.max(generation.c.commit_number)).scalar_subquery()
        just_written = and_(newest, generation.c.committed_at > db_now() - self.quiet_seconds)
        return bool(self.claims.depth()) or any(
            self.catalog.select(select(generation.c.id).where(what).limit(1)) for what in (being_written, just_written)
        )

    def sweep(self) -> None:
        """Remove what dead provers left in the cache; their claims may be claimed again, after a pause."""
        for lease in self.proofs.left_over():
            with suppress(StorageUnavailableError):  # the next look comes by
                self.cache.delete(lease.scratch)
                self.proofs.release(lease, "the worker that ran it a second time fell silent", failed=True)

    def prove(self, plan: ProofPlan, *, yields: bool = True) -> Proof | None:
        """Run the operation a second time and draw the conclusion; None if another worker is at it, or it pauses.

        With `yields` the run is ended when something comes to be persisted. Raises `CatalogUnavailableError`.
        """
        scratch = half_of(restored_place(plan.witness))
        lease = self.proofs.claim(plan.operation, plan.version, self.owner, scratch)
        if lease is None:
            return None
        begun = self.clock()
        failed, error = False, "its process ended"
        try:
            with self._watched(lease, yields=yields) as ended:
                try:
                    verdict, words = self._compare(plan, scratch)
                    error = words if verdict is Verdict.FAILED else ""
                except CatalogUnavailableError:
                    raise
                except PersistenceError as failure:
                    verdict = Verdict.INTERRUPTED if ended.is_set() else Verdict.FAILED
                    error = "something came to be persisted" if ended.is_set() else str(failure)
                    words = f"{plan.operation} could not be run a second time: {error}"
                failed = verdict is Verdict.FAILED
        finally:
            with suppress(PersistenceError):  # what stopped it matters more; `sweep` finds both
                self.cache.delete(scratch)
                self.proofs.release(lease, error, failed=failed)
        log = logger.warning if verdict in (Verdict.UNMASKED, Verdict.FAILED) else logger.info
        log("%s", words)
        return Proof(plan.operation, plan.version, plan.witness, verdict, self.clock() - begun, words)

    def _first(self) -> Proof | None:
        """Prove the first of the plan whose code is here and that nobody else proves now."""
        here = self.runner.operations()
        for plan in self.plan():
            runs = plan.operation in here and here[plan.operation].version == plan.version
            if runs and not plan.waits_for and (proof := self.prove(plan)) is not None:
                return proof
        return None

    def _compare(self, plan: ProofPlan, scratch: str) -> tuple[Verdict, str]:
        """Make the witness a second time in `scratch`; note whether the digest is the same."""
        dataset = self.catalog.get(plan.witness)
        call = dataset.call
        assert call is not None  # else it would be nobody's output
        with ExitStack() as holds:
            for source in dict.fromkeys(dataset.sources):
                holds.enter_context(self.catalog.held(source, self.reader_seconds, counts=False))
            sources = [self.restorer.verifier.verify(source) for source in self.catalog.get_all(dataset.sources)]
            written = self.runner.run(call, [self._uri(source) for source in sources], self.cache.uri(scratch))
            once_more = f"{call.name} (version {call.version}) was run a second time to make {dataset.ref} again"
            if written.digest == dataset.digest:
                self.catalog.saw_repeat(call, same=True)
                took = say_seconds(written.seconds)
                words = f"{once_more} and gave the same digest, in {took}: it is proven to be idempotent"
                self.catalog.amend(dataset.ref, event="proven", why=words)
                return Verdict.PROVEN, words
            moved = self.restorer.unmask(dataset, sources)
        if moved is None:
            return Verdict.FAILED, f"{once_more}, but a source was damaged or gone: that proves nothing"
        words = (
            f"{once_more} and gave another digest: it is not idempotent, whatever it was declared; "
            f"{counted(len(moved), 'dataset')} that waited went to the head of the queue"
        )
        self.catalog.amend(dataset.ref, event="unmasked", why=words)
        return Verdict.UNMASKED, words

    def _uri(self, source: Dataset) -> str:
        if not source.available:
            raise MissingDataError(f"{source.ref} is gone")
        return self.cache.uri(source.cache_location) if source.in_cache else self.under.uri(source.under_location)

    def _watched(self, lease: ProofLease, *, yields: bool) -> AbstractContextManager[threading.Event]:
        """Renew the lease while inside; the event is set, and the run ended, once it was lost or has to give way."""

        def go_on() -> bool:
            return self.proofs.renew(lease) and not (yields and self.claims.waiting(1))

        def interrupt() -> None:
            if isinstance(self.runner, Interruptible):
                try:
                    self.runner.interrupt()
                except Exception:  # of whatever runs operations: the lease is renewed on, and it is tried again
                    logger.warning("the proof of %s could not be interrupted", lease.operation, exc_info=True)

        every = min(_WATCH_SECONDS, self.proofs.lease_seconds / 3)
        return renewal(go_on, every, f"proof of {lease.operation}", interrupt=interrupt)
