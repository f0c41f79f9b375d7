"""Restores generations: fetches them from the under-store or recomputes them, in the planned order."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from springline.persistence.backends.copy_layout import (
    parse_location,
    read_copy,
    remove_all_copies,
    restored_copy_location,
)
from springline.persistence.backends.spec import Backend, UnderStore
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.claims import Claims
from springline.persistence.decisions.recovery import RecoveryPlan, RecoveryStep, plan_recovery
from springline.persistence.engine.attempt import OutputMismatchError
from springline.persistence.engine.copier import copy_files
from springline.persistence.engine.replacement import Replacement
from springline.persistence.engine.runner import Runner
from springline.persistence.engine.verification import Verifier
from springline.persistence.errors import (
    CatalogUnavailableError,
    CorruptCopyError,
    DecodeError,
    IrrecoverableError,
    MissingDataError,
    OperationError,
    PersistenceError,
    RunnerUnavailableError,
    StorageUnavailableError,
    TransitionError,
    describe_error,
)
from springline.persistence.model.dataset import Dataset, ExecutionSide, Ref
from springline.persistence.model.manifest import File, Manifest
from springline.persistence.model.transitions import Event
from springline.persistence.text.formatting import format_list

_MAX_REPLANS = 5
_POLL_SECONDS = 0.2  # interval between two checks for bytes that are being sent


@dataclass
class RecoveryReport:
    """Result of a recovery: the steps taken, what is irrecoverable and why, and failures that a retry may resolve."""

    steps: list[RecoveryStep] = field(default_factory=list)
    seconds: float = 0.0
    irrecoverable: dict[Ref, tuple[str, ...]] = field(default_factory=dict)
    failed: dict[Ref, PersistenceError] = field(default_factory=dict)

    def require_all(self) -> None:
        """Raise `IrrecoverableError` with every irrecoverable generation, else the first failure, if there is any."""
        if self.irrecoverable:
            details = "; ".join(f"{ref} ({', '.join(causes)})" for ref, causes in sorted(self.irrecoverable.items()))
            raise IrrecoverableError(f"lost and irrecoverable: {details}")
        self.require_no_failure()

    def require_no_failure(self) -> None:
        """Raise the first failure, if there is one."""
        for failure in self.failed.values():
            raise failure


@dataclass
class Restorer:
    """Executes recovery plans."""

    catalog: Catalog
    claims: Claims
    cache: Backend
    under: UnderStore
    runner: Runner
    verifier: Verifier
    replacement: Replacement
    reader_seconds: float
    sleep: Callable[[float], None] = time.sleep

    def plan(self, targets: Sequence[Ref]) -> RecoveryPlan:
        """Return the steps needed to have `targets` in the cache."""
        lineage = self.catalog.lineage_around(targets, down=False)
        return plan_recovery(lineage, targets, self.catalog.load_cost_model(lineage))

    def restore(self, targets: Sequence[Ref], *, sending: Ref | None = None) -> RecoveryReport:
        """Restore what can be restored; the plan is recomputed after each surprise, such as a missing source.

        A failed step affects only its descendants, whatever it raises; so does one that met a surprise several times.
        No dataset is marked irrecoverable while another worker is sending the missing bytes: they may arrive in the
        under-store although the cache has lost them. `sending` is the generation that the caller itself has claimed.
        Raises `RunnerUnavailableError`, `StorageUnavailableError`.
        """
        report = RecoveryReport()
        started_at = time.monotonic()
        surprises: Counter[Ref] = Counter()
        nothing_in_flight = False  # whether no transfer was in flight before the plan was made
        while True:
            plan = self._plan_on_verified_sources(targets)
            report.irrecoverable = dict(plan.irrecoverable)
            if plan.irrecoverable and not nothing_in_flight:
                nothing_in_flight = not self._is_any_in_flight(plan.irrecoverable, sending)
                if not nothing_in_flight:
                    self.sleep(_POLL_SECONDS)
                continue  # they may have arrived since the plan was made
            try:
                self._carry_out(plan, report, surprises)
                break
            except OutputMismatchError:
                continue  # nondeterministic, or a damaged source was marked: the next plan accounts for it
            except (MissingDataError, CorruptCopyError, TransitionError):
                nothing_in_flight = False
        report.seconds = time.monotonic() - started_at
        return report

    def ensure_cached(self, targets: Sequence[Ref], *, sending: Ref | None = None) -> RecoveryReport:
        """Like `restore`, but raises if anything stays lost or fails; see `RecoveryReport.require_all`."""
        report = self.restore(targets, sending=sending)
        report.require_all()
        return report

    def is_recoverable(self, dataset: Dataset) -> bool:
        """Whether its bytes are available, or can be restored from available data."""
        return (
            self.verifier.verify(dataset).available or not self._plan_on_verified_sources([dataset.ref]).irrecoverable
        )

    def remove_copies(self, dataset: Dataset) -> None:
        """Remove every copy of a retired or abandoned generation; does nothing if that was done before."""
        if dataset.cache_location or dataset.under_location:
            remove_all_copies(self.cache, self.under, dataset)
            self.catalog.amend(dataset.ref, cache_location="", under_location="")

    def mark_nondeterministic(self, dataset: Dataset, sources: Sequence[Dataset]) -> list[Ref] | None:
        """Record that a second run gave a different digest; returns None if a damaged source explains the difference.

        Otherwise the operation is marked non-idempotent; returns the queued generations that moved to the head of the
        queue.
        """
        assert dataset.call is not None
        if [source for source in sources if self._has_moved(source, self.verifier.verify(source, deep=True))]:
            return None
        return self.catalog.record_reproduction(dataset.call, same=False)

    def _is_any_in_flight(self, lost: Iterable[Ref], sending: Ref | None) -> bool:
        """Whether another worker is sending one of `lost` or of their ancestors."""
        ancestors = self.catalog.lineage_around(lost, down=False).datasets
        return self.claims.is_any_in_flight(ref for ref in ancestors if ref != sending)

    def _plan_on_verified_sources(self, targets: Sequence[Ref]) -> RecoveryPlan:
        """Plan, verify the sources that the plan reads, and plan again until none has changed."""
        checked_refs: set[Ref] = set()
        lineage = self.catalog.lineage_around(targets, down=False)
        while True:
            costs = self.catalog.load_cost_model(lineage)
            plan = plan_recovery(lineage, targets, costs)
            steps = [lineage.datasets[step.ref] for step in plan.steps if step.action == "recompute"]
            sources = {ref for step in steps for ref in step.sources} - checked_refs
            checked_refs |= sources
            verified = [self.verifier.verify(source) for source in self.catalog.get_all(sorted(sources))]
            changed = [dataset for dataset in verified if self._has_moved(lineage.datasets[dataset.ref], dataset)]
            if not changed:
                return plan
            if any(lineage.datasets[dataset.ref].persisted for dataset in changed):
                lineage = self.catalog.lineage_around(targets, down=False)  # the ancestors were not needed before
            else:
                lineage = lineage.with_changes(*changed)

    def _carry_out(self, plan: RecoveryPlan, report: RecoveryReport, surprises: Counter[Ref]) -> None:
        with ExitStack() as holds:
            for number, step in enumerate(plan.steps, start=1):
                if not self._try_step(step, report, surprises):
                    continue
                report.steps.append(step)
                later = self.catalog.get_all([after.ref for after in plan.steps[number:]])
                if any(step.ref in dataset.sources for dataset in later):
                    holds.enter_context(
                        self.catalog.hold_for_reading(step.ref, self.reader_seconds, counts_as_read=False)
                    )

    def _try_step(self, step: RecoveryStep, report: RecoveryReport, surprises: Counter[Ref]) -> bool:
        """Execute a step unless it failed before or needs a failed one; returns True on success.

        Raises what needs another plan, as long as it is not always the same step, and what stops every step.
        """
        if step.ref in report.failed:
            return False
        try:
            if step.action == "recompute":
                sources = self.catalog.get_all(self.catalog.get(step.ref).sources)
                if missing := [s.ref for s in sources if s.ref in report.failed and not s.available]:
                    raise OperationError(f"{step.ref} needs {format_list(missing)}, which could not be restored either")
            self._run_step(step)
        except (RunnerUnavailableError, CatalogUnavailableError, OutputMismatchError):
            raise
        except Exception as failure:
            if isinstance(failure, MissingDataError | CorruptCopyError | TransitionError):
                surprises[step.ref] += 1
                if surprises[step.ref] <= _MAX_REPLANS:
                    raise
            elif isinstance(failure, StorageUnavailableError) and self._unavailable_reason():
                raise
            if not isinstance(failure, PersistenceError):
                failure = PersistenceError(f"{step.ref}: {describe_error(failure)}")
            report.failed[step.ref] = failure
            return False
        return True

    def _unavailable_reason(self) -> str:
        return self.cache.unavailable_reason() or self.under.unavailable_reason()

    @staticmethod
    def _has_moved(before: Dataset, after: Dataset) -> bool:
        return (before.cache, before.under) != (after.cache, after.under)

    def _run_step(self, step: RecoveryStep) -> None:
        dataset = self.catalog.get(step.ref)
        if dataset.in_cache:
            return
        if step.action == "fetch":
            self.replacement.ensure_free_bytes(dataset.bytes)
            self._fetch(dataset)
            return
        with ExitStack() as holds:  # eviction must not remove the sources
            for source in dataset.sources:
                holds.enter_context(self.catalog.hold_for_reading(source, self.reader_seconds, counts_as_read=False))
            self.replacement.ensure_free_bytes(dataset.bytes)
            self._recompute(dataset)

    def _fetch(self, dataset: Dataset) -> None:
        started_at = time.monotonic()
        with self._new_location(dataset) as location:
            try:
                manifest = copy_files(
                    self.under, dataset.under_location, self.cache, location, files=self._published_files(dataset)
                )
            except MissingDataError:
                self.verifier.mark_lost(dataset, Event.UNDER_STORE_LOST, "its files in the under-store are missing")
                raise
            if manifest.checksum != dataset.under_checksum:
                self.verifier.mark_lost(dataset, Event.UNDER_STORE_LOST, "its copy in the under-store is damaged")
                raise CorruptCopyError(f"{dataset.ref}: its copy in the under-store does not match its checksum")
            if self._manifest(location).checksum != manifest.checksum:
                raise CorruptCopyError(f"{dataset.ref}: the files copied to the cache do not match its checksum")
            seconds = time.monotonic() - started_at
            self.catalog.record_measurement("", ExecutionSide.STORAGE, bytes_in=manifest.bytes, seconds=seconds)
            self._record_restored(dataset, location, manifest, f"fetched in {seconds:.1f} s")

    def _recompute(self, dataset: Dataset) -> None:
        assert dataset.call is not None
        sources = [self.verifier.verify(source) for source in self.catalog.get_all(dataset.sources)]
        self._require_sources(dataset, sources)
        inputs = [
            self.cache.uri(source.cache_location) if source.in_cache else self.under.uri(source.under_location)
            for source in sources
        ]
        with self._new_location(dataset) as location:
            try:
                result = self.runner.run(dataset.call, inputs, self.cache.uri(location))
            except OperationError as failure:
                self._require_sources(dataset, [self.verifier.verify(source, deep=True) for source in sources], sources)
                kind = RunnerUnavailableError if isinstance(failure, RunnerUnavailableError) else OperationError
                raise kind(f"{dataset.ref} could not be recomputed: {failure}") from failure
            if dataset.digest and result.digest != dataset.digest:
                self.mark_nondeterministic(dataset, sources)
                raise OutputMismatchError(
                    f"{dataset.ref}: {dataset.call.name} returned another result when it was re-run"
                )
            if dataset.digest:
                self.catalog.record_reproduction(dataset.call, same=True)
            self._record_restored(dataset, location, self._manifest(location), f"recomputed in {result.seconds:.1f} s")

    def _require_sources(self, dataset: Dataset, sources: Sequence[Dataset], before: Sequence[Dataset] = ()) -> None:
        """Raise `MissingDataError` if a source cannot be read, or has changed location since `before`."""
        moved = [a for a, b in zip(sources, before, strict=False) if self._has_moved(a, b)]
        if missing := moved + [source for source in sources if not source.available]:
            raise MissingDataError(f"{missing[0].ref}, a source of {dataset.ref}, is missing")

    @contextmanager
    def _new_location(self, dataset: Dataset) -> Iterator[str]:
        """Yield a unique location for a restored copy; what is there is removed if that fails."""
        location = restored_copy_location(dataset.ref)
        try:
            yield location
        except CatalogUnavailableError:
            raise  # whether the catalog names it is not known; `sweep` removes it if not
        except BaseException:
            with suppress(StorageUnavailableError):  # the error that stopped the copy matters more; `sweep` removes it
                self.cache.delete(location)
            raise

    def _published_files(self, dataset: Dataset) -> tuple[File, ...] | None:
        """Return the files that the manifest of a copy in the under-store names; None: they have to be listed.

        An adopted one has none. A manifest that does not match the catalog is not relied on.
        """
        if parse_location(dataset.under_location) is None:
            return None
        try:
            _, manifest = read_copy(self.under, dataset.under_location)
        except (FileNotFoundError, DecodeError):
            return None
        return manifest.files if manifest.checksum == dataset.under_checksum else None

    def _record_restored(self, dataset: Dataset, location: str, manifest: Manifest, reason: str) -> None:
        try:
            self.catalog.change(
                dataset.ref, Event.RESTORED, reason=reason, checksum=manifest.checksum, bytes=manifest.bytes,
                cache_location=location,
            )  # fmt: skip
        except TransitionError:
            if not self.catalog.get(dataset.ref).in_cache:
                raise
            self.cache.delete(location)  # another worker has restored it concurrently
            return
        self.cache.delete(dataset.cache_location)  # the remains of the lost copy

    def _manifest(self, location: str) -> Manifest:
        try:
            return self.cache.manifest(location)
        except FileNotFoundError as error:
            raise MissingDataError(f"{location}: the cache was removed while it was being restored") from error
