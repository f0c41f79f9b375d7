"""Sends one claimed generation to the under-store: its bytes, or the operation that makes them there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import xxhash

from persistence import sidecar
from persistence.backends.spec import Backend, File, Manifest
from persistence.catalog import Catalog
from persistence.claims import Claims, Lease, LeaseLost
from persistence.errors import DamagedCopy, PersistenceError
from persistence.model import Dataset, Method, Side
from persistence.runner import Runner


class CacheDamaged(DamagedCopy):
    """The cached bytes are not those that were written."""


class OutputDiffers(DamagedCopy):
    """An operation that was run again gave another digest: it is not idempotent, whatever it was declared."""


def copy(
    source: Backend,
    location: str,
    target: Backend,
    to: str,
    *,
    pace: Callable[[int], None] = lambda count: None,
    lost: threading.Event | None = None,
) -> Manifest:
    """Copy the files of `location` to the new location `to`; returns what was read, with checksums.

    `pace` is told of every chunk and may hold it back; the copy ends with `LeaseLost` once `lost` is set.
    """
    sent = []
    for file in source.files(location):
        hasher = xxhash.xxh3_128()
        with target.create(to, file.name, file.bytes) as out:
            for chunk in source.chunks(location, file.name):
                if lost is not None and lost.is_set():
                    raise LeaseLost(f"{location}: the lease ran out during the copy")
                pace(len(chunk))
                hasher.update(chunk)
                out.write(chunk)
        sent.append(File(file.name, file.bytes, hasher.hexdigest()))
    return Manifest(tuple(sent))


@dataclass
class Sender:
    """Carries transfers out and records them; a copy is verified where it lies before it counts."""

    catalog: Catalog
    claims: Claims
    cache: Backend
    under: Backend
    runner: Runner
    pace: Callable[[int], None] = lambda count: None

    def send_data(self, dataset: Dataset, lease: Lease) -> Dataset:
        """Copy the cached bytes.

        Raises `DamagedCopy` if they are not what was written (cache) or not what was sent (link),
        `FileNotFoundError` if they are gone, `StorageFull`, `StorageUnavailable`, `LeaseLost`.
        """
        begun = time.monotonic()
        with self._half_copy(lease) as (half, lost):
            sent = copy(self.cache, dataset.cache_location, self.under, half, pace=self.pace, lost=lost)
            if sent.checksum != dataset.checksum:
                raise CacheDamaged(f"{dataset.ref}: the cached bytes are not those that were written")
            if self.under.manifest(half).checksum != sent.checksum:
                raise DamagedCopy(f"{dataset.ref}: the bytes that arrived in the under-store are not those sent")
            seconds = time.monotonic() - begun
            settled = self._settle(dataset, lease, half, Method.DATA, sent.checksum, seconds)
        self.catalog.measure("", Side.STORAGE, bytes_in=dataset.bytes, seconds=seconds)
        return settled

    def send_operation(self, dataset: Dataset, lease: Lease, sources: list[Dataset]) -> Dataset:
        """Run the operation on the under-store's copies of its sources, and compare digests.

        Raises `OutputDiffers` if the result is another one, `OperationFailed`, and what `send_data` raises.
        """
        assert dataset.call is not None
        begun = time.monotonic()
        with self._half_copy(lease) as (half, _):
            inputs = [self.under.uri(source.under_location) for source in sources]
            written = self.runner.run(dataset.call, inputs, self.under.uri(half))
            if written.digest != dataset.digest:
                raise OutputDiffers(
                    f"{dataset.ref}: {dataset.call.name} was run again on the same sources and gave another result "
                    f"({written.digest}, not {dataset.digest}): it is not idempotent"
                )
            manifest = self.under.manifest(half)
            seconds = time.monotonic() - begun
            settled = self._settle(dataset, lease, half, Method.OPERATION, manifest.checksum, seconds)
        self.catalog.saw_repeat(dataset.call, same=True)
        self.catalog.measure(
            dataset.call.name,
            Side.STORAGE,
            bytes_in=sum(source.bytes for source in sources),
            bytes_out=manifest.bytes,
            seconds=seconds,
        )
        return settled

    def sweep(self, lease: Lease) -> None:
        """Remove the half copy that a dead worker left."""
        self.under.delete(half_location(lease))

    @contextmanager
    def _half_copy(self, lease: Lease) -> Iterator[tuple[str, threading.Event]]:
        """The place of a copy that is under way, its lease renewed; removed if the copy does not end well."""
        self.sweep(lease)
        with self.claims.kept(lease) as lost:
            try:
                yield half_location(lease), lost
            except BaseException:
                with suppress(PersistenceError):  # what stopped the copy matters more; the next claim sweeps too
                    self.sweep(lease)
                raise

    def _settle(
        self, dataset: Dataset, lease: Lease, half: str, method: Method, checksum: str, seconds: float
    ) -> Dataset:
        self.under.write_small(half, sidecar.NAME, sidecar.write(dataset, under_checksum=checksum))
        final = final_location(lease)
        self.under.rename(half, final)
        try:
            return self.claims.settle(lease, method=method, location=final, checksum=checksum, actual_seconds=seconds)
        except LeaseLost:
            self.under.delete(final)
            raise


def half_location(lease: Lease) -> str:
    """Where a copy lies while it is not whole: hidden, and named by the lease."""
    return f"{lease.ref.path}/.@{lease.ref.generation}-{lease.number}"


def final_location(lease: Lease) -> str:
    """Where a whole copy lies: named by the lease, so that a worker that wakes up late harms nothing."""
    return f"{lease.ref.path}/@{lease.ref.generation}-{lease.number}"


def paced(bandwidth: float) -> Callable[[int], None]:
    """A pace of `bandwidth` bytes a second for one worker; 0: as fast as it goes."""
    if not bandwidth:
        return lambda count: None
    free_at = [0.0]

    def pace(count: int) -> None:
        now = time.monotonic()
        start = max(free_at[0], now)
        free_at[0] = start + count / bandwidth
        if free_at[0] > now:
            time.sleep(free_at[0] - now)

    return pace
