"""Sends one claimed generation to the under-store: its bytes, or the operation that makes them there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import xxhash

from springline.persistence.backends.copy_layout import half_of, sweep_under, under_place
from springline.persistence.backends.spec import Backend, File, Manifest
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.claims import Claims, Lease, LeaseLost
from springline.persistence.engine.runner import Runner
from springline.persistence.errors import DamagedCopy, Gone, PersistenceError, StorageUnavailable
from springline.persistence.model import sidecar
from springline.persistence.model.dataset import Dataset, Method, Side

_ASK_SECONDS = 0.05  # how often a worker that sends asks whether it is to give way


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
    Raises `Gone` if the source is not there, `DamagedCopy` if somebody takes the target away meanwhile.
    """
    try:
        files = source.files(location)
    except FileNotFoundError as error:
        raise Gone(f"{location}: {error}") from error
    sent = []
    for file in files:
        hasher = xxhash.xxh3_128()
        size = 0
        try:
            with target.create(to, file.name, file.bytes) as out:
                for chunk in _read(source, location, file.name):
                    if lost is not None and lost.is_set():
                        raise LeaseLost(f"{location}: the lease ran out during the copy")
                    pace(len(chunk))
                    hasher.update(chunk)
                    size += len(chunk)
                    out.write(chunk)
        except FileNotFoundError as error:
            raise DamagedCopy(f"{to}: somebody took the half copy away: {error}") from error
        sent.append(File(file.name, size, hasher.hexdigest()))
    return Manifest(tuple(sent))


def _read(source: Backend, location: str, name: str) -> Iterator[bytes]:
    try:
        yield from source.chunks(location, name)
    except FileNotFoundError as error:
        raise Gone(f"{location}/{name}: {error}") from error


@contextmanager
def _taken_away(half: str) -> Iterator[None]:
    """Inside, a half copy that is not there is one that somebody took away."""
    try:
        yield
    except FileNotFoundError as error:
        raise DamagedCopy(f"{half}: somebody took the half copy away: {error}") from error


class Pace:
    """How fast one worker sends: at most `bandwidth` bytes a second (0: no limit), and not while `give_way()`.

    `stood_aside` counts the seconds that it gave way: they say nothing about the link.
    """

    def __init__(
        self,
        bandwidth: float = 0,
        give_way: Callable[[], bool] = lambda: False,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.stood_aside = 0.0
        self._bandwidth = bandwidth
        self._give_way = give_way
        self._clock = clock
        self._sleep = sleep
        self._asked_at = float("-inf")
        self._free_at = 0.0

    def __call__(self, count: int) -> None:
        """Return when `count` more bytes may be sent."""
        self._stand_aside()
        if not self._bandwidth:
            return
        now = self._clock()
        self._free_at = max(self._free_at, now) + count / self._bandwidth
        if self._free_at > now:
            self._sleep(self._free_at - now)

    def _stand_aside(self) -> None:
        begun = self._clock()
        if begun - self._asked_at < _ASK_SECONDS:
            return
        while self._give_way():
            self._sleep(_ASK_SECONDS)
        self._asked_at = self._clock()
        self.stood_aside += self._asked_at - begun


@dataclass
class Sender:
    """Carries transfers out and records them; a copy is verified where it lies before it counts."""

    catalog: Catalog
    claims: Claims
    cache: Backend
    under: Backend
    runner: Runner
    pace: Pace = field(default_factory=Pace)

    def send_data(self, dataset: Dataset, lease: Lease) -> Dataset:
        """Copy the cached bytes.

        Raises `CacheDamaged` if they are not what was written, `Gone` if they are not there, `DamagedCopy`
        if something else arrived, `StorageFull`, `StorageUnavailable`, `LeaseLost`.
        """
        begun, aside = time.monotonic(), self.pace.stood_aside
        with self._half_copy(dataset, lease) as (half, lost):
            sent = copy(self.cache, dataset.cache_location, self.under, half, pace=self.pace, lost=lost)
            if sent.checksum != dataset.checksum:
                raise CacheDamaged(f"{dataset.ref}: the cached bytes are not those that were written")
            if not self._arrived(half, sent):
                raise DamagedCopy(f"{dataset.ref}: the bytes that arrived in the under-store are not those sent")
            seconds = time.monotonic() - begun
            settled = self._settle(dataset, lease, half, Method.DATA, sent, seconds)
        on_the_link = max(seconds - (self.pace.stood_aside - aside), 0.0)
        self.catalog.measure("", Side.STORAGE, bytes_in=dataset.bytes, seconds=on_the_link)
        return settled

    def send_operation(self, dataset: Dataset, lease: Lease, sources: list[Dataset]) -> Dataset:
        """Run the operation on the under-store's copies of its sources, and compare digests.

        Raises `OutputDiffers` if the result is another one, `OperationFailed`, and what `send_data` raises.
        """
        assert dataset.call is not None
        begun = time.monotonic()
        with self._half_copy(dataset, lease) as (half, _):
            inputs = [self.under.uri(source.under_location) for source in sources]
            written = self.runner.run(dataset.call, inputs, self.under.uri(half))
            if written.digest != dataset.digest:
                raise OutputDiffers(
                    f"{dataset.ref}: {dataset.call.name} was run again on the same sources and gave another result "
                    f"({written.digest}, not {dataset.digest}): it is not idempotent"
                )
            manifest = self._manifest(half)
            seconds = time.monotonic() - begun
            settled = self._settle(dataset, lease, half, Method.OPERATION, manifest, seconds)
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
        """Remove what dead workers left of the copies that they made under `lease` and earlier ones."""
        sweep_under(self.under, self.catalog.get(lease.ref), before=lease.number + 1)

    @contextmanager
    def _half_copy(self, dataset: Dataset, lease: Lease) -> Iterator[tuple[str, threading.Event]]:
        """The place of a copy that is under way, its lease renewed; removed if the copy does not end well."""
        sweep_under(self.under, dataset, before=lease.number + 1)
        half = half_of(under_place(lease.ref, lease.number))
        with self.claims.kept(lease) as lost:
            try:
                yield half, lost
            except BaseException:
                with suppress(PersistenceError):  # what stopped the copy matters more; the next claim sweeps too
                    self.under.delete(half)
                raise

    def _arrived(self, half: str, sent: Manifest) -> bool:
        with _taken_away(half):
            return self.under.holds(half, sent)

    def _manifest(self, half: str) -> Manifest:
        with _taken_away(half):
            return self.under.manifest(half)

    def _settle(
        self, dataset: Dataset, lease: Lease, half: str, method: Method, copied: Manifest, seconds: float
    ) -> Dataset:
        checksum = copied.checksum
        told = sidecar.write(dataset, under_checksum=checksum, under_bytes=copied.bytes)
        self.under.write_small(half, sidecar.NAME, told)
        final = under_place(lease.ref, lease.number)
        try:
            with _taken_away(half):
                self.under.rename(half, final)
        except FileExistsError as error:
            raise StorageUnavailable(
                f"{final} is in the under-store already, and the catalog does not know it; was the catalog lost? "
                "`springline catalog rebuild` fills an empty one again"
            ) from error
        try:
            return self.claims.settle(lease, method=method, location=final, checksum=checksum, actual_seconds=seconds)
        except LeaseLost:
            self.under.delete(final)
            raise
