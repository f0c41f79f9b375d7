"""One attempt at a transfer, for writers that wait and for persisters alike: claimed, sent, verified, recorded.

    with sender.attempt(ref, owner, Method.DATA, None) as attempt:
        if attempt is not None:
            dataset = attempt.send_data(dataset)

An attempt that ends with an error gives its claim back, and says why.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from springline.persistence.backends.copy_layout import half_of, sweep_under, under_place
from springline.persistence.backends.spec import Backend, Manifest
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.claims import Claims, Lease, LeaseLostError
from springline.persistence.engine.copier import CorruptCacheError, Pace, copy
from springline.persistence.engine.runner import Runner
from springline.persistence.errors import (
    CorruptCopyError,
    IrrecoverableError,
    PersistenceError,
    StorageUnavailableError,
)
from springline.persistence.model import sidecar
from springline.persistence.model.dataset import Dataset, Method, Ref, Side


class OutputMismatchError(CorruptCopyError):
    """An operation that was run again gave another digest: it is not idempotent, whatever it was declared."""


@dataclass
class Sender:
    """Makes attempts at transfers from the cache to the under-store; a copy is verified where it lies before it counts.

    `pace` says how fast it sends, for all its attempts together.
    """

    catalog: Catalog
    claims: Claims
    cache: Backend
    under: Backend
    runner: Runner
    pace: Pace = field(default_factory=Pace)

    @contextmanager
    def attempt(
        self, ref: Ref, owner: str, method: Method, predicted_seconds: float | None, *, pause: float = 0.0
    ) -> Iterator[Attempt | None]:
        """Claim the transfer of `ref` and renew the lease while inside; None if another worker was first.

        An error gives the claim back: it may be claimed again after `pause` seconds, which double with each attempt.
        What nothing can bring back (`IrrecoverableError`) is given up for good. The error is raised on.
        """
        lease = self.claims.claim(ref, owner, method, predicted_seconds)
        if lease is None:
            yield None
            return
        attempt = Attempt(self, lease, pause)
        try:
            with self.claims.renewed(lease) as attempt.lost:
                yield attempt
        except BaseException as error:
            self._give_back(attempt, error)
            raise

    def sweep(self, lease: Lease) -> None:
        """Remove what dead workers left of the copies that they made under `lease` and earlier ones."""
        sweep_under(self.under, self.catalog.get(lease.ref), before=lease.number + 1)

    def _give_back(self, attempt: Attempt, error: BaseException) -> None:
        """Let others claim it; a lease that was lost is not this worker's to give back, and nothing changes."""
        lease, why = attempt.lease, str(error)
        if isinstance(error, IrrecoverableError):
            if self.claims.release(lease, why, wanted=False):
                self.catalog.amend(lease.ref, event="given up", why=why)
        elif isinstance(error, PersistenceError):
            self.claims.release(lease, why, pause=attempt.pause, attempts=lease.attempts)
        else:  # it stopped the worker, which says nothing about this transfer
            self.claims.release(lease, f"{type(error).__name__}: {error}", pause=attempt.pause)


@dataclass
class Attempt:
    """A transfer that is claimed: it is sent as data or as its operation, and is persisted when that returns.

    `pause` is what follows a failure, in seconds; `lost` is set once somebody else took the transfer over.
    """

    sender: Sender
    lease: Lease
    pause: float = 0.0
    lost: threading.Event = field(default_factory=threading.Event)

    def send_data(self, dataset: Dataset) -> Dataset:
        """Copy the cached bytes.

        Raises `CorruptCacheError` if they are not what was written, `MissingDataError` if they are not there,
        `CorruptCopyError` if something else arrived, `StorageFullError`, `StorageUnavailableError`, `LeaseLostError`.
        """
        sender, pace = self.sender, self.sender.pace
        begun, aside = time.monotonic(), pace.stood_aside
        with self._half_copy(dataset) as half:
            sent = copy(sender.cache, dataset.cache_location, sender.under, half, pace=pace, lost=self.lost)
            if sent.checksum != dataset.checksum:
                raise CorruptCacheError(f"{dataset.ref}: the cached bytes are not those that were written")
            if not self._arrived(half, sent):
                raise CorruptCopyError(f"{dataset.ref}: the bytes that arrived in the under-store are not those sent")
            seconds = time.monotonic() - begun
            settled = self._settle(dataset, half, Method.DATA, sent, seconds)
        on_the_link = max(seconds - (pace.stood_aside - aside), 0.0)
        sender.catalog.measure("", Side.STORAGE, bytes_in=dataset.bytes, seconds=on_the_link)
        return settled

    def send_operation(self, dataset: Dataset, sources: list[Dataset]) -> Dataset:
        """Run the operation on the under-store's copies of its sources, and compare digests.

        Raises `OutputMismatchError` if the result is another one, `OperationError`, and what `send_data` raises.
        """
        assert dataset.call is not None
        sender = self.sender
        begun = time.monotonic()
        with self._half_copy(dataset) as half:
            inputs = [sender.under.uri(source.under_location) for source in sources]
            written = sender.runner.run(dataset.call, inputs, sender.under.uri(half))
            if written.digest != dataset.digest:
                raise OutputMismatchError(
                    f"{dataset.ref}: {dataset.call.name} was run again on the same sources and gave another result "
                    f"({written.digest}, not {dataset.digest}): it is not idempotent"
                )
            manifest = self._manifest(half)
            seconds = time.monotonic() - begun
            settled = self._settle(dataset, half, Method.OPERATION, manifest, seconds)
        sender.catalog.saw_repeat(dataset.call, same=True)
        sender.catalog.measure(
            dataset.call.name,
            Side.STORAGE,
            bytes_in=sum(source.bytes for source in sources),
            bytes_out=manifest.bytes,
            seconds=seconds,
        )
        return settled

    def go_on_by(self, method: Method, predicted_seconds: float | None) -> None:
        """Record that the transfer goes on by another method than was claimed."""
        self.sender.claims.now_by(self.lease, method, predicted_seconds)

    @contextmanager
    def _half_copy(self, dataset: Dataset) -> Iterator[str]:
        """The place of a copy that is under way; removed if the copy does not end well."""
        under = self.sender.under
        sweep_under(under, dataset, before=self.lease.number + 1)
        half = half_of(under_place(self.lease.ref, self.lease.number))
        try:
            yield half
        except BaseException:
            with suppress(PersistenceError):  # what stopped the copy matters more; the next claim sweeps too
                under.delete(half)
            raise

    def _arrived(self, half: str, sent: Manifest) -> bool:
        with _taken_away(half):
            return self.sender.under.holds(half, sent)

    def _manifest(self, half: str) -> Manifest:
        with _taken_away(half):
            return self.sender.under.manifest(half)

    def _settle(self, dataset: Dataset, half: str, method: Method, copied: Manifest, seconds: float) -> Dataset:
        under, checksum = self.sender.under, copied.checksum
        beside = sidecar.write(dataset, under_checksum=checksum, under_bytes=copied.bytes)
        under.write_small(half, sidecar.NAME, beside)
        final = under_place(self.lease.ref, self.lease.number)
        try:
            with _taken_away(half):
                under.rename(half, final)
        except FileExistsError as error:
            raise StorageUnavailableError(
                f"{final} is in the under-store already, and the catalog does not know it; was the catalog lost? "
                "`springline catalog rebuild` fills an empty one again"
            ) from error
        try:
            return self.sender.claims.settle(
                self.lease, method=method, location=final, checksum=checksum, actual_seconds=seconds
            )
        except LeaseLostError:
            under.delete(final)
            raise


@contextmanager
def _taken_away(half: str) -> Iterator[None]:
    """Inside, a half copy that is not there is one that somebody took away."""
    try:
        yield
    except FileNotFoundError as error:
        raise CorruptCopyError(f"{half}: somebody took the half copy away: {error}") from error
