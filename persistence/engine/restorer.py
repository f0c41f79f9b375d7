"""Brings generations back: fetches them from the under-store, or runs their operations again, in the planned order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from springline.persistence.backends.copy_layout import half_of, remove_all, restored_place
from springline.persistence.backends.spec import Backend, Manifest
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.claims import Claims
from springline.persistence.decisions.recovery import RecoveryPlan, Step, plan_recovery
from springline.persistence.engine.attempt import OutputMismatchError
from springline.persistence.engine.copier import copy
from springline.persistence.engine.replacement import Replacement
from springline.persistence.engine.runner import Runner
from springline.persistence.engine.verification import Verifier
from springline.persistence.errors import (
    CorruptCopyError,
    IrrecoverableError,
    MissingDataError,
    OperationError,
    PersistenceError,
    RunnerUnavailableError,
    StorageFullError,
    StorageUnavailableError,
    TransitionError,
)
from springline.persistence.model.dataset import Dataset, Ref, Side
from springline.persistence.model.transitions import Event
from springline.persistence.text.formatting import say_list

_MOST_SURPRISES = 5
_LOOK_SECONDS = 0.2  # between two looks at bytes that are on their way


@dataclass
class Restored:
    """What a recovery did, what cannot be brought back and why, and what failed, which another try may bring back."""

    steps: list[Step] = field(default_factory=list)
    seconds: float = 0.0
    irrecoverable: dict[Ref, tuple[str, ...]] = field(default_factory=dict)
    failed: dict[Ref, PersistenceError] = field(default_factory=dict)

    def require_all(self) -> None:
        """Raise `IrrecoverableError`, naming every one, if anything stays lost.

        Else the first failure, if there is one.
        """
        if self.irrecoverable:
            told = "; ".join(f"{ref} ({', '.join(why)})" for ref, why in sorted(self.irrecoverable.items()))
            raise IrrecoverableError(f"lost, and nothing can bring it back: {told}")
        self.require_no_failure()

    def require_no_failure(self) -> None:
        """Raise the first failure, if there is one."""
        for failure in self.failed.values():
            raise failure


@dataclass
class Restorer:
    """Carries recovery plans out."""

    catalog: Catalog
    claims: Claims
    cache: Backend
    under: Backend
    runner: Runner
    verifier: Verifier
    replacement: Replacement
    reader_seconds: float
    sleep: Callable[[float], None] = time.sleep

    def plan(self, targets: Sequence[Ref]) -> RecoveryPlan:
        """What would have to be done to have `targets` in the cache."""
        lineage = self.catalog.lineage_around(targets, down=False)
        return plan_recovery(lineage, targets, self.catalog.costs(lineage))

    def bring_back(self, targets: Sequence[Ref], *, sending: Ref | None = None) -> Restored:
        """Bring back what can be; planned anew after each surprise, such as a source found missing on the way.

        A step that fails keeps back only what is made from it. Nothing is given up while somebody is sending the
        bytes that are missed: they may be on their way, though gone from the cache. `sending` is what the caller
        itself has claimed. Raises `RunnerUnavailableError`, `StorageUnavailableError`.
        """
        report = Restored()
        begun = time.monotonic()
        surprises = 0
        settled = False  # whether nothing was on its way any more before the plan was made
        while True:
            plan = self._plan_on_what_is_there(targets)
            report.irrecoverable = dict(plan.irrecoverable)
            if plan.irrecoverable and not settled:
                settled = not self._on_their_way(plan.irrecoverable, sending)
                if not settled:
                    self.sleep(_LOOK_SECONDS)
                continue  # they may have arrived since the plan was made
            try:
                self._carry_out(plan, report)
                break
            except OutputMismatchError:
                continue  # the operation was unmasked, or a damaged source marked: the next plan knows
            except (MissingDataError, CorruptCopyError, TransitionError):
                settled = False
                surprises += 1
                if surprises > _MOST_SURPRISES:
                    raise
        report.seconds = time.monotonic() - begun
        return report

    def demand(self, targets: Sequence[Ref], *, sending: Ref | None = None) -> Restored:
        """`bring_back`, but raise if anything stays lost or fails; see `Restored.require_all`."""
        report = self.bring_back(targets, sending=sending)
        report.require_all()
        return report

    def can_be_had(self, dataset: Dataset) -> bool:
        """Whether its bytes are there, or can be brought back from what is there."""
        return self.verifier.verify(dataset).available or not self._plan_on_what_is_there([dataset.ref]).irrecoverable

    def forget(self, dataset: Dataset) -> None:
        """Remove every copy of a generation whose life is over; does nothing where that was done before."""
        if dataset.cache_location or dataset.under_location:
            remove_all(self.cache, self.under, dataset)
            self.catalog.amend(dataset.ref, cache_location="", under_location="")

    def unmask(self, dataset: Dataset, sources: Sequence[Dataset]) -> list[Ref] | None:
        """A second run gave another digest: its operation is a liar, unless a source was damaged: None then.

        Returns the waiting generations that went to the head of the queue thereby.
        """
        assert dataset.call is not None
        if [source for source in sources if self._changed(source, self.verifier.verify(source, deep=True))]:
            return None
        return self.catalog.saw_repeat(dataset.call, same=False)

    def _on_their_way(self, lost: Iterable[Ref], sending: Ref | None) -> bool:
        """Whether somebody else is sending one of `lost`, or of what they are made from."""
        above = self.catalog.lineage_around(lost, down=False).datasets
        return self.claims.under_way(ref for ref in above if ref != sending)

    def _plan_on_what_is_there(self, targets: Sequence[Ref]) -> RecoveryPlan:
        """The plan once every source that it reads was looked for: the catalog may not know yet what a fault took."""
        looked_at: set[Ref] = set()
        lineage = self.catalog.lineage_around(targets, down=False)
        while True:
            costs = self.catalog.costs(lineage)
            plan = plan_recovery(lineage, targets, costs)
            steps = [lineage.datasets[step.ref] for step in plan.steps if step.action == "recompute"]
            sources = {ref for step in steps for ref in step.sources} - looked_at
            looked_at |= sources
            seen = [self.verifier.verify(source) for source in self.catalog.get_all(sorted(sources))]
            changed = [dataset for dataset in seen if self._changed(lineage.datasets[dataset.ref], dataset)]
            if not changed:
                return plan
            if any(lineage.datasets[dataset.ref].persisted for dataset in changed):
                lineage = self.catalog.lineage_around(targets, down=False)  # what lies above was not needed before
            else:
                lineage = lineage.changed(*changed)

    def _carry_out(self, plan: RecoveryPlan, report: Restored) -> None:
        with ExitStack() as holds:
            for number, step in enumerate(plan.steps, start=1):
                if not self._try(step, report):
                    continue
                report.steps.append(step)
                later = self.catalog.get_all([after.ref for after in plan.steps[number:]])
                if any(step.ref in dataset.sources for dataset in later):
                    holds.enter_context(self.catalog.held(step.ref, self.reader_seconds, counts=False))

    def _try(self, step: Step, report: Restored) -> bool:
        """Take a step, unless it failed before or needs one that did; True if it went well."""
        if step.ref in report.failed:
            return False
        try:
            if step.action == "recompute":
                sources = self.catalog.get_all(self.catalog.get(step.ref).sources)
                if missing := [s.ref for s in sources if s.ref in report.failed and not s.available]:
                    raise OperationError(f"{step.ref} is made from {say_list(missing)}, not brought back either")
            self._take(step)
        except RunnerUnavailableError:
            raise
        except (OperationError, StorageFullError) as failure:
            report.failed[step.ref] = failure
            return False
        return True

    @staticmethod
    def _changed(before: Dataset, after: Dataset) -> bool:
        return (before.cache, before.under) != (after.cache, after.under)

    def _take(self, step: Step) -> None:
        dataset = self.catalog.get(step.ref)
        if dataset.in_cache:
            return
        if step.action == "fetch":
            self.replacement.make_room(dataset.bytes)
            self._fetch(dataset)
            return
        with ExitStack() as holds:  # making room must not take the sources away
            for source in dataset.sources:
                holds.enter_context(self.catalog.held(source, self.reader_seconds, counts=False))
            self.replacement.make_room(dataset.bytes)
            self._recompute(dataset)

    def _fetch(self, dataset: Dataset) -> None:
        begun = time.monotonic()
        with self._new_place(dataset) as place:
            half = half_of(place)
            try:
                manifest = copy(self.under, dataset.under_location, self.cache, half)
            except MissingDataError:
                self.verifier.mark(dataset, Event.UNDER_LOST, "its files in the under-store are missing")
                raise
            if manifest.checksum != dataset.under_checksum:
                self.verifier.mark(dataset, Event.UNDER_LOST, "its copy in the under-store is damaged")
                raise CorruptCopyError(f"{dataset.ref}: its copy in the under-store is not what was put there")
            if self._manifest(half).checksum != manifest.checksum:
                raise CorruptCopyError(f"{dataset.ref}: the bytes that arrived in the cache are not those sent")
            seconds = time.monotonic() - begun
            self.catalog.measure("", Side.STORAGE, bytes_in=manifest.bytes, seconds=seconds)
            self._restored(dataset, place, manifest, f"fetched in {seconds:.1f} s")

    def _recompute(self, dataset: Dataset) -> None:
        assert dataset.call is not None
        sources = [self.verifier.verify(source) for source in self.catalog.get_all(dataset.sources)]
        self._require(dataset, sources)
        inputs = [
            self.cache.uri(source.cache_location) if source.in_cache else self.under.uri(source.under_location)
            for source in sources
        ]
        with self._new_place(dataset) as place:
            half = half_of(place)
            try:
                written = self.runner.run(dataset.call, inputs, self.cache.uri(half))
            except OperationError as failure:
                self._require(dataset, [self.verifier.verify(source, deep=True) for source in sources], sources)
                kind = RunnerUnavailableError if isinstance(failure, RunnerUnavailableError) else OperationError
                raise kind(f"{dataset.ref} could not be recomputed: {failure}") from failure
            if dataset.digest and written.digest != dataset.digest:
                self.unmask(dataset, sources)
                raise OutputMismatchError(
                    f"{dataset.ref}: {dataset.call.name} gave another result when it was run again"
                )
            if dataset.digest:
                self.catalog.saw_repeat(dataset.call, same=True)
            self._restored(dataset, place, self._manifest(half), f"recomputed in {written.seconds:.1f} s")

    def _require(self, dataset: Dataset, sources: Sequence[Dataset], before: Sequence[Dataset] = ()) -> None:
        """Raise `MissingDataError` if a source cannot be read, or not where it was `before`."""
        moved = [a for a, b in zip(sources, before, strict=False) if self._changed(a, b)]
        if missing := moved + [source for source in sources if not source.available]:
            raise MissingDataError(f"{missing[0].ref}, a source of {dataset.ref}, is gone")

    @contextmanager
    def _new_place(self, dataset: Dataset) -> Iterator[str]:
        """A place of its own for a copy that is brought back; its half copy goes in any case."""
        place = restored_place(dataset.ref)
        try:
            yield place
        finally:
            with suppress(StorageUnavailableError):  # what stopped the copy matters more; `sweep` finds it
                self.cache.delete(half_of(place))

    def _restored(self, dataset: Dataset, place: str, manifest: Manifest, how: str) -> None:
        try:
            self.cache.rename(half_of(place), place)
            self.catalog.change(
                dataset.ref, Event.RESTORED, why=how, checksum=manifest.checksum, bytes=manifest.bytes,
                cache_location=place,
            )  # fmt: skip
        except BaseException as error:
            self.cache.delete(place)
            if isinstance(error, TransitionError) and self.catalog.get(dataset.ref).in_cache:
                return  # somebody else brought it back at the same time
            if isinstance(error, FileNotFoundError):
                raise MissingDataError(f"{dataset.ref}: the cache was taken away while it was brought back") from error
            raise
        self.cache.delete(dataset.cache_location)  # what a fault left of it

    def _manifest(self, half: str) -> Manifest:
        try:
            return self.cache.manifest(half)
        except FileNotFoundError as error:
            raise MissingDataError(f"{half}: the cache was taken away while it was brought back") from error
