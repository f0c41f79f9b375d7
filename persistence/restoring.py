"""Brings generations back: fetches them from the under-store, or runs their operations again, in the planned order."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from persistence.backends.spec import Backend, Manifest
from persistence.catalog import Catalog
from persistence.errors import DamagedCopy, Irrecoverable, OperationFailed, RefusedTransition
from persistence.model import Cache, Dataset, Ref, Side
from persistence.recovery import RecoveryPlan, Step, plan_recovery
from persistence.replacement import Replacement
from persistence.runner import Runner
from persistence.sending import OutputDiffers, copy
from persistence.transitions import Event


@dataclass
class Restored:
    """What a recovery did, and what cannot be brought back and why."""

    steps: list[Step] = field(default_factory=list)
    seconds: float = 0.0
    irrecoverable: dict[Ref, tuple[str, ...]] = field(default_factory=dict)


@dataclass
class Restorer:
    """Carries recovery plans out."""

    catalog: Catalog
    cache: Backend
    under: Backend
    runner: Runner
    replacement: Replacement

    def plan(self, targets: Sequence[Ref]) -> RecoveryPlan:
        """What would have to be done to have `targets` in the cache."""
        lineage = self.catalog.lineage_around(targets, down=False)
        return plan_recovery(lineage, targets, self.catalog.costs(lineage))

    def bring_back(self, targets: Sequence[Ref]) -> Restored:
        """Bring back what can be; planned anew after each surprise, such as a source found missing on the way."""
        report = Restored()
        begun = time.monotonic()
        surprises = 0
        while True:
            plan = self.plan(targets)
            report.irrecoverable = dict(plan.irrecoverable)
            try:
                for step in plan.steps:
                    self._carry_out(step)
                    report.steps.append(step)
                break
            except OutputDiffers:
                continue  # the operation was unmasked: the next plan counts it as not repeatable
            except (FileNotFoundError, DamagedCopy):
                surprises += 1
                if surprises > 5:
                    raise
        report.seconds = time.monotonic() - begun
        return report

    def demand(self, targets: Sequence[Ref]) -> Restored:
        """`bring_back`, but raise `Irrecoverable`, naming each, if anything stays lost."""
        report = self.bring_back(targets)
        if report.irrecoverable:
            told = "; ".join(f"{ref} ({', '.join(why)})" for ref, why in sorted(report.irrecoverable.items()))
            raise Irrecoverable(f"lost, and nothing can bring it back: {told}")
        return report

    def verify(self, dataset: Dataset, *, deep: bool = False) -> Dataset:
        """Look whether the bytes are where the catalog says; what is missing or damaged is marked so.

        Compares names and sizes, with `deep` also checksums.
        """
        if dataset.in_cache and not self._whole(self.cache, dataset.cache_location, dataset.checksum, dataset, deep):
            dataset = self._mark(dataset, Event.LOST, "its cached files are missing or damaged")
        if dataset.persisted and not self._whole(
            self.under, dataset.under_location, dataset.under_checksum, dataset, deep
        ):
            dataset = self._mark(dataset, Event.UNDER_LOST, "its files in the under-store are missing or damaged")
        return dataset

    def _carry_out(self, step: Step) -> None:
        dataset = self.catalog.get(step.ref)
        if dataset.in_cache:
            return
        self.replacement.make_room(dataset.bytes)
        if step.action == "fetch":
            self._fetch(dataset)
        else:
            self._recompute(dataset)

    def _fetch(self, dataset: Dataset) -> None:
        half = _half(dataset)
        begun = time.monotonic()
        try:
            try:
                manifest = copy(self.under, dataset.under_location, self.cache, half)
            except FileNotFoundError:
                self._mark(dataset, Event.UNDER_LOST, "its files in the under-store are missing")
                raise
            if manifest.checksum != dataset.under_checksum:
                self._mark(dataset, Event.UNDER_LOST, "its copy in the under-store is damaged")
                raise DamagedCopy(f"{dataset.ref}: its copy in the under-store is not what was put there")
            self.catalog.measure("", Side.STORAGE, bytes_in=manifest.bytes, seconds=time.monotonic() - begun)
            self._restored(dataset, half, manifest, f"fetched in {time.monotonic() - begun:.1f} s")
        finally:
            self.cache.delete(half)

    def _recompute(self, dataset: Dataset) -> None:
        assert dataset.call is not None
        inputs = []
        for source in self.catalog.get_all(dataset.sources):
            source = self.verify(source)
            if not source.available:
                raise FileNotFoundError(f"{source.ref}, a source of {dataset.ref}, is gone")
            cached = source.in_cache
            inputs.append(self.cache.uri(source.cache_location) if cached else self.under.uri(source.under_location))
        half = _half(dataset)
        try:
            written = self.runner.run(dataset.call, inputs, self.cache.uri(half))
            if dataset.digest and written.digest != dataset.digest:
                self.catalog.saw_repeat(dataset.call, same=False)
                raise OutputDiffers(f"{dataset.ref}: {dataset.call.name} gave another result when it was run again")
            if dataset.digest:
                self.catalog.saw_repeat(dataset.call, same=True)
            self._restored(dataset, half, self.cache.manifest(half), f"recomputed in {written.seconds:.1f} s")
        except OperationFailed as failure:
            raise OperationFailed(f"{dataset.ref} could not be recomputed: {failure}") from failure
        finally:
            self.cache.delete(half)

    def _restored(self, dataset: Dataset, half: str, manifest: Manifest, how: str) -> None:
        self.cache.delete(dataset.cache_location)  # what a fault left of it
        try:
            self.cache.rename(half, dataset.cache_location)
            self.catalog.change(dataset.ref, Event.RESTORED, why=how, checksum=manifest.checksum, bytes=manifest.bytes)
        except (FileExistsError, RefusedTransition):
            if self.catalog.get(dataset.ref).cache is not Cache.PRESENT:
                raise  # otherwise somebody else brought it back at the same time

    def _mark(self, dataset: Dataset, event: Event, why: str) -> Dataset:
        try:
            return self.catalog.change(dataset.ref, event, why=why)
        except RefusedTransition:
            return self.catalog.get(dataset.ref)

    @staticmethod
    def _whole(backend: Backend, location: str, checksum: str, dataset: Dataset, deep: bool) -> bool:
        try:
            if deep:
                return backend.manifest(location).checksum == checksum
            files = backend.files(location)
        except FileNotFoundError:
            return False
        # The bytes of a copy that an operation made beside the under-store may differ in number.
        return bool(files) and (checksum != dataset.checksum or sum(f.bytes for f in files) == dataset.bytes)


def _half(dataset: Dataset) -> str:
    return f"{dataset.ref.path}/.@{dataset.ref.generation}-{uuid.uuid4().hex[:8]}"
