"""One attempt at a transfer, by a synchronous writer or a persister: claim, send, verify, record.

    with sender.attempt(ref, owner, TransferMethod.DATA, None) as attempt:
        if attempt is not None:
            dataset = attempt.send_data(dataset)

An attempt that ends with an error releases its claim and records the reason.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from springline.persistence.backends.copy_layout import (
    publish_copy,
    require_no_foreign_copies,
    sweep_under,
    under_copy_location,
)
from springline.persistence.backends.spec import Backend, UnderStore
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.claims import Claims, Lease, LeaseLostError
from springline.persistence.engine.copier import BandwidthLimiter, CorruptCacheError, copy_files
from springline.persistence.engine.runner import Runner
from springline.persistence.errors import (
    CorruptCopyError,
    IrrecoverableError,
    PersistenceError,
    describe_error,
)
from springline.persistence.model.dataset import Dataset, ExecutionSide, Ref, TransferMethod
from springline.persistence.model.manifest import Manifest
from springline.persistence.text.formatting import format_requests


class OutputMismatchError(CorruptCopyError):
    """A re-run of an operation returned a different digest: the operation is not idempotent, even if declared so."""


@dataclass
class Sender:
    """Makes attempts at transfers from the cache to the under-store; a copy is verified in place before it counts.

    `limiter` limits the total bandwidth of all its attempts.
    """

    catalog: Catalog
    claims: Claims
    cache: Backend
    under: UnderStore
    runner: Runner
    limiter: BandwidthLimiter = field(default_factory=BandwidthLimiter)

    @contextmanager
    def attempt(
        self, ref: Ref, owner: str, method: TransferMethod, predicted_seconds: float | None, *, pause: float = 0.0
    ) -> Iterator[Attempt | None]:
        """Claim the transfer of `ref` and renew the lease inside the block; yields None if another worker was first.

        An error releases the claim: it can be claimed again after `pause` seconds, doubled with each attempt. After
        `IrrecoverableError` the generation is removed from the queue. The error is re-raised.
        """
        lease = self.claims.claim(ref, owner, method, predicted_seconds)
        if lease is None:
            yield None
            return
        attempt = Attempt(self, lease, pause)
        try:
            with self.claims.renewing(lease, lambda: attempt.sent_bytes) as attempt.lease_lost:
                yield attempt
        except BaseException as error:
            self._release(attempt, error)
            raise

    def sweep(self, lease: Lease) -> None:
        """Remove the partial copies that dead workers left under `lease` and earlier leases."""
        sweep_under(self.under, self.catalog.get(lease.ref), before=lease.number + 1)

    def _release(self, attempt: Attempt, error: BaseException) -> None:
        """Release the claim for other workers; does nothing if the lease was lost."""
        lease, reason = attempt.lease, str(error)
        if isinstance(error, IrrecoverableError):
            if self.claims.release(lease, reason, persist_requested=False):
                self.catalog.amend(lease.ref, event="persist_abandoned", reason=reason)
        elif isinstance(error, Exception):
            self.claims.release(lease, describe_error(error), pause=attempt.pause, attempts=lease.attempts)
        else:  # the worker was stopped, which says nothing about this transfer
            self.claims.release(lease, f"{type(error).__name__}: {error}", pause=attempt.pause)


@dataclass
class Attempt:
    """A claimed transfer: it is sent as data or as its operation, and is persisted when that method returns.

    `pause` is the number of seconds until a retry after a failure; `lease_lost` is set once another worker has taken
    the transfer over. `sent_bytes` are those sent so far as data. Once `is_publishing`, the copy may exist, whatever
    its store says.
    """

    sender: Sender
    lease: Lease
    pause: float = 0.0
    lease_lost: threading.Event = field(default_factory=threading.Event)
    sent_bytes: int = 0
    is_publishing: bool = False
    _requests_before: Counter[str] = field(default_factory=Counter)

    def send_data(self, dataset: Dataset) -> Dataset:
        """Copy the cached bytes.

        Raises `CorruptCacheError` if they differ from what was written, `MissingDataError` if they are missing,
        `CorruptCopyError` if the copy differs from what was sent, `StorageFullError`, `StorageUnavailableError`,
        `LeaseLostError`.
        """
        sender, limiter = self.sender, self.sender.limiter
        started_at, yielded_before = time.monotonic(), limiter.yielded_seconds
        with self._new_copy(dataset) as location:
            manifest = copy_files(
                sender.cache, dataset.cache_location, sender.under, location, limiter=self._admit,
                lease_lost=self.lease_lost,
            )  # fmt: skip
            if manifest.checksum != dataset.checksum:
                raise CorruptCacheError(f"{dataset.ref}: the cached files do not match the checksum of its write")
            if not self._has_arrived(location, manifest):
                raise CorruptCopyError(f"{dataset.ref}: the files copied to the under-store do not match its checksum")
            seconds = time.monotonic() - started_at
            persisted = self._publish(dataset, location, TransferMethod.DATA, manifest, seconds)
        link_seconds = max(seconds - (limiter.yielded_seconds - yielded_before), 0.0)
        sender.catalog.record_measurement("", ExecutionSide.STORAGE, bytes_in=dataset.bytes, seconds=link_seconds)
        return persisted

    def send_operation(self, dataset: Dataset, sources: list[Dataset]) -> Dataset:
        """Run the operation on the under-store's copies of its sources, and compare digests.

        Raises `OutputMismatchError` if the digests differ, `OperationError`, and the errors of `send_data`.
        """
        assert dataset.call is not None
        sender = self.sender
        started_at = time.monotonic()
        with self._new_copy(dataset) as location:
            inputs = [sender.under.uri(source.under_location) for source in sources]
            result = sender.runner.run(dataset.call, inputs, sender.under.uri(location))
            if result.digest != dataset.digest:
                raise OutputMismatchError(
                    f"{dataset.ref}: {dataset.call.name} was re-run on the same sources and returned another result "
                    f"({result.digest}, not {dataset.digest}): it is not idempotent"
                )
            manifest = self._manifest(location)
            seconds = time.monotonic() - started_at
            persisted = self._publish(dataset, location, TransferMethod.OPERATION, manifest, seconds)
        sender.catalog.record_reproduction(dataset.call, same=True)
        sender.catalog.record_measurement(
            dataset.call.name,
            ExecutionSide.STORAGE,
            bytes_in=sum(source.bytes for source in sources),
            bytes_out=manifest.bytes,
            seconds=seconds,
        )
        return persisted

    def change_method(self, method: TransferMethod, predicted_seconds: float | None) -> None:
        """Record that the transfer continues with another method than the one claimed."""
        self.sender.claims.change_method(self.lease, method, predicted_seconds)

    def _admit(self, count: int) -> None:
        """Block until the link admits `count` more bytes, and count them as sent."""
        self.sender.limiter(count)
        self.sent_bytes += count

    @contextmanager
    def _new_copy(self, dataset: Dataset) -> Iterator[str]:
        """Yield the location of a new copy; if that fails before it is published, its files are removed."""
        under = self.sender.under
        self._requests_before = Counter(under.requests)
        require_no_foreign_copies(sweep_under(under, dataset, before=self.lease.number + 1))
        location = under_copy_location(self.lease.ref, self.lease.number)
        try:
            yield location
        except BaseException:
            if not self.is_publishing:  # else the next claim sweeps it
                with suppress(PersistenceError):  # the error that stopped the copy matters more
                    under.delete(location)
            raise

    def _has_arrived(self, location: str, sent: Manifest) -> bool:
        with _detecting_removal(location):
            return self.sender.under.holds(location, sent)

    def _manifest(self, location: str) -> Manifest:
        with _detecting_removal(location):
            return self.sender.under.manifest(location)

    def _publish(
        self, dataset: Dataset, location: str, method: TransferMethod, copied: Manifest, seconds: float
    ) -> Dataset:
        if self.lease_lost.is_set():
            raise LeaseLostError(f"{dataset.ref}: the lease expired before the copy was published")
        self.is_publishing = True
        under = self.sender.under
        with _detecting_removal(location):
            publish_copy(under, location, dataset, copied)
        try:
            return self.sender.claims.complete(
                self.lease, method=method, location=location, checksum=copied.checksum, actual_seconds=seconds,
                cost=format_requests(Counter(under.requests) - self._requests_before),
            )  # fmt: skip
        except LeaseLostError:
            under.delete(location)
            raise


@contextmanager
def _detecting_removal(location: str) -> Iterator[None]:
    """Raise `CorruptCopyError` if a copy in progress is missing inside the block, since another process removed it."""
    try:
        yield
    except FileNotFoundError as error:
        raise CorruptCopyError(f"{location}: the partial copy was removed by another process: {error}") from error
