"""Persists what waits: claims the dearest to lose, sends its data or its operation, verifies, records."""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.claims import Claims
from springline.persistence.decisions.priority import Policy, Score, in_turn
from springline.persistence.decisions.transfer import TransferPlan, decide
from springline.persistence.engine.attempt import Attempt, OutputMismatchError, Sender
from springline.persistence.engine.copier import CorruptCacheError
from springline.persistence.engine.restorer import Restorer
from springline.persistence.errors import (
    CatalogUnavailableError,
    CorruptCopyError,
    IrrecoverableError,
    MissingDataError,
    OperationError,
    StorageFullError,
    StorageUnavailableError,
    TransitionError,
)
from springline.persistence.model.dataset import Dataset, Method, Ref
from springline.persistence.model.lineage import Lineage

_PAGE = 24  # candidates by stored score whose score is worked out again at each claim
_TRIES = 3  # of one generation before a worker that gets nothing else done takes a rest


@dataclass(frozen=True)
class Choice:
    """What is persisted next, how, and why it comes first."""

    ref: Ref
    plan: TransferPlan
    score: Score


@dataclass(frozen=True)
class Outcome:
    """What came of one transfer; `error` is empty where it went well, and the seconds are those of the catalog then."""

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
        """Persist the next generation; None if nothing can be claimed now, also because the catalog went away.

        Whoever calls again waits for the catalog; what was claimed when it went away is claimed again
        once its lease has run out.
        """
        try:
            return self._step()
        except CatalogUnavailableError:
            return None

    def _step(self) -> Outcome | None:
        for expired in self.claims.expire():
            with suppress(StorageUnavailableError):  # whoever claims it next sweeps too
                self.sender.sweep(expired)
        for choice in self.choices():
            if (outcome := self._carry_out(choice)) is not None:
                return outcome
        return None

    def drain(self, *, patience: float = 0.0, told: Callable[[Outcome], None] = lambda outcome: None) -> Summary:
        """Persist until the queue is empty, or nothing could be claimed for `patience` seconds."""
        summary = Summary()
        idle_since = time.monotonic()
        failures: Counter[Ref] = Counter()  # since something went well
        while True:
            outcome = self.step()
            if outcome is not None:
                summary.outcomes.append(outcome)
                told(outcome)
                if not outcome.error:
                    idle_since = time.monotonic()
                    failures.clear()
                    continue
                failures[outcome.ref] += 1
                if failures[outcome.ref] < _TRIES:
                    continue
            impatient = time.monotonic() - idle_since >= patience
            try:
                summary.left = self.claims.depth()
            except CatalogUnavailableError:
                if impatient:
                    raise
                summary.left = 1  # at least; it cannot be asked
            if not summary.left or impatient:
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
            for ref, score in in_turn(refs, lineage, costs, self.policy, now):
                plan = decide(ref, lineage, costs, small_bytes=self.small_bytes)
                if not self._waits(plan, lineage):
                    yield Choice(ref, plan, score)

    @staticmethod
    def _waits(plan: TransferPlan, lineage: Lineage) -> bool:
        """An operation waits for sources that will be persisted themselves; all else the worker brings about."""
        known = [lineage.datasets[ref] for ref in lineage.datasets[plan.ref].sources if ref in lineage.datasets]
        return plan.method is Method.OPERATION and any(source.wanted and not source.persisted for source in known)

    def _carry_out(self, choice: Choice) -> Outcome | None:
        """Make an attempt at what was chosen; None if another worker was first."""
        begun = time.monotonic()
        ref, plan = choice.ref, choice.plan
        method, predicted = plan.method, plan.predicted.seconds if plan.predicted else None
        seconds: float | None = None
        error = ""
        try:
            with self.sender.attempt(ref, self.owner, method, predicted, pause=self.retry_seconds) as attempt:
                if attempt is None:
                    return None
                sent = self._send(self.catalog.get(ref), plan, attempt)
                method, seconds = sent.method or method, sent.actual_seconds
        except (
            CorruptCopyError, MissingDataError, IrrecoverableError, OperationError, TransitionError,
            StorageFullError, StorageUnavailableError,
        ) as failure:  # fmt: skip
            error = str(failure)
        if method is not plan.method:
            predicted = plan.data.seconds if plan.data else None
        return Outcome(ref, method, predicted, time.monotonic() - begun if seconds is None else seconds, error)

    def _send(self, dataset: Dataset, plan: TransferPlan, attempt: Attempt) -> Dataset:
        """Send as planned, and by data where the operation turns out not to do; returns it as it is recorded then."""
        try:
            return self._send_operation(dataset, plan, attempt) or self._send_data(dataset, plan, attempt)
        except (MissingDataError, CorruptCacheError) as error:
            if self._is_lost(dataset.ref):
                attempt.pause = 0.0  # whoever is next makes it again
            raise MissingDataError(f"its cached bytes are gone: {error}") from error

    def _send_operation(self, dataset: Dataset, plan: TransferPlan, attempt: Attempt) -> Dataset | None:
        """Send the operation where that is planned; None where data is to be sent, also because it did not do."""
        if plan.method is not Method.OPERATION or not dataset.digest:
            return None
        sources = self.catalog.get_all(dataset.sources)
        if not all(source.persisted for source in sources):
            return None
        try:
            return attempt.send_operation(dataset, sources)
        except OutputMismatchError:
            self.restorer.unmask(dataset, sources)
        except OperationError:
            below = [self.restorer.verifier.verify(source, deep=True) for source in sources]
            if not dataset.in_cache and all(source.persisted for source in below):
                raise
        return None

    def _send_data(self, dataset: Dataset, plan: TransferPlan, attempt: Attempt) -> Dataset:
        """Send the cached bytes, made again first where they were lost."""
        if not dataset.in_cache:
            self.restorer.demand([dataset.ref], sending=dataset.ref)
            dataset = self.catalog.get(dataset.ref)
        if plan.method is Method.OPERATION:
            attempt.go_on_by(Method.DATA, plan.data.seconds if plan.data else None)
        return attempt.send_data(dataset)

    def _is_lost(self, ref: Ref) -> bool:
        """Look again, and mark it lost if it is: the worker may have been late, and the bytes elsewhere by now."""
        try:
            return not self.restorer.verifier.verify(self.catalog.get(ref), deep=True).in_cache
        except StorageUnavailableError:
            return False
