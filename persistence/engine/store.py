"""What jobs call: write and read datasets under a strategy, at memory speed where the strategy allows it."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from springline.persistence.backends.copy_layout import half_of, under_place
from springline.persistence.backends.spec import Backend, Manifest
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.claims import Claims, LeaseLostError
from springline.persistence.catalog.schema import db_now
from springline.persistence.decisions.priority import Policy
from springline.persistence.engine.attempt import Sender
from springline.persistence.engine.copier import CorruptCacheError
from springline.persistence.engine.replacement import Replacement
from springline.persistence.engine.restorer import Restorer
from springline.persistence.errors import (
    CorruptCopyError,
    IrrecoverableError,
    PersistenceError,
    StorageFullError,
    StorageUnavailableError,
    UnknownDatasetError,
)
from springline.persistence.model import sidecar
from springline.persistence.model.dataset import (
    Call,
    Dataset,
    Method,
    Operation,
    Origin,
    Phase,
    Ref,
    Side,
    Strategy,
    Written,
)
from springline.persistence.model.transitions import Event
from springline.persistence.text.redaction import redacted

logger = logging.getLogger("springline.store")


@dataclass(frozen=True)
class Reading:
    """A generation that is being read, at a URI that Spark can read."""

    dataset: Dataset
    uri: str

    @property
    def ref(self) -> Ref:
        """Which generation it is."""
        return self.dataset.ref


@dataclass
class Writing:
    """A generation that is being written into the folder `uri`, which does not exist yet."""

    dataset: Dataset
    uri: str
    location: str = ""
    straight_down: bool = False
    written: Written | None = None

    @property
    def ref(self) -> Ref:
        """Which generation it will be."""
        return self.dataset.ref

    def done(self, written: Written) -> None:
        """Say that the folder is whole, and what is in it."""
        self.written = written


@dataclass
class Store:
    """Reads and writes datasets; see `Strategy` for when they are persisted."""

    catalog: Catalog
    claims: Claims
    cache: Backend
    under: Backend
    sender: Sender
    restorer: Restorer
    replacement: Replacement
    policy: Policy
    reader_seconds: float
    retry_seconds: float
    sync_patience: float
    sync_unproven: bool = False
    sleep: Callable[[float], None] = time.sleep

    def register_operations(self, operations: Iterable[Operation]) -> None:
        """Record the operations whose code is here; see `Catalog.register_operations`."""
        self.catalog.register_operations(operations)

    def begin_run(self, origin: Origin) -> None:
        """Note that a DAG run began: it sees what it makes itself, else what is committed by now."""
        self.catalog.begin_run(origin)

    @contextmanager
    def read(self, path: str, *, origin: Origin = Origin(), generation: int | None = None) -> Iterator[Reading]:
        """Read the newest generation that `origin` may see, or the one asked for.

        While inside it is neither evicted nor retired. What was lost is brought back first, what
        was evicted is fetched if it fits. Raises `UnknownDatasetError`, `IrrecoverableError`.
        """
        while True:
            ref = self.catalog.resolve(path, origin).ref if generation is None else Ref(path, generation)
            with self.catalog.held(ref, self.reader_seconds) as dataset:
                if dataset.phase is not Phase.COMMITTED:
                    if generation is None:
                        continue  # it was retired just now: a newer one is there
                    raise UnknownDatasetError(f"{ref} cannot be read: {_NOT_READABLE[dataset.phase]}")
                if generation is None and dataset.superseded:
                    logger.info("%s is read, though a newer generation was committed: %s", ref, _why_older(origin))
                dataset = self._at_hand(dataset)
                location = dataset.cache_location if dataset.in_cache else dataset.under_location
                yield Reading(dataset, (self.cache if dataset.in_cache else self.under).uri(location))
                return

    def adoptable(self, path: str, *, call: Call | None, sources: Sequence[Ref], origin: Origin) -> Dataset | None:
        """What an earlier try of the same task in the same DAG run has committed already, from the same sources.

        What was lost for good meanwhile is not adopted.
        """
        if not origin.run_id:
            return None
        for dataset in self.catalog.find(path=path, origin=origin, phase=Phase.COMMITTED, limit=10):
            same = dataset.call == call and dataset.sources == tuple(sources)
            if same and self.restorer.can_be_had(dataset):
                return dataset
        return None

    @contextmanager
    def write(
        self,
        path: str,
        *,
        call: Call | None = None,
        sources: Sequence[Ref] = (),
        strategy: Strategy,
        origin: Origin = Origin(),
        checkpoint: bool = False,
        wanted: bool = True,
    ) -> Iterator[Writing]:
        """Write the next generation of `path` into `Writing.uri`, and say `Writing.done`.

        Leaving without an error commits it, after persisting it where the strategy asks for that;
        an error abandons it. Raises `InvalidPathError`, `StorageFullError`, `StorageUnavailableError`.
        """
        expected = self._expected_bytes(call, sources)
        dataset = self.catalog.begin(
            path, call=call, sources=sources, strategy=strategy, origin=origin, checkpoint=checkpoint,
            wanted=wanted, expected_bytes=expected,
        )  # fmt: skip
        writing = Writing(dataset, "")
        try:
            self._remove_failed_tries(path)
            if self._room_is_missing(expected):
                writing.straight_down = True
                writing.location = half_of(under_place(dataset.ref, 0))
            else:
                writing.location = dataset.cache_location
            backend = self.under if writing.straight_down else self.cache
            backend.delete(writing.location)  # what a catalog that was lost may have left
            writing.uri = backend.uri(writing.location)
            yield writing
            if writing.written is None:
                raise PersistenceError(f"{dataset.ref}: the write ended without done()")
            writing.dataset = self._finish(writing, writing.written)
        except BaseException as error:
            self._abandon(writing, error)
            raise
        with suppress(StorageUnavailableError):  # it is committed: whoever writes next makes room
            self.replacement.make_room(0)

    # ---- reading

    def _at_hand(self, dataset: Dataset) -> Dataset:
        dataset = self.restorer.verifier.verify(dataset)
        if dataset.in_cache:
            return dataset
        if dataset.persisted and self.replacement.make_room(dataset.bytes):
            return dataset  # it does not fit: read where it is
        report = self.restorer.bring_back([dataset.ref])
        if why := report.irrecoverable.get(dataset.ref):
            raise IrrecoverableError(f"{dataset.ref} is lost, and nothing can bring it back: {'; '.join(why)}")
        dataset = self.catalog.get(dataset.ref)
        if dataset.persisted and isinstance(report.failed.get(dataset.ref), StorageFullError):
            return dataset  # the cache took less than its capacity: read where it is
        report.require_all()
        return dataset

    # ---- writing

    def _expected_bytes(self, call: Call | None, sources: Sequence[Ref]) -> int:
        growth = self.catalog.growth(call.name) if call else None
        if growth is None:
            return 0
        return int(growth * sum(source.bytes for source in self.catalog.get_all(sources)))

    def _room_is_missing(self, expected: int) -> bool:
        """Make room for a write; True if it has to go straight to the under-store."""
        if expected > self.replacement.capacity:
            return True
        until = time.monotonic() + self.sync_patience
        while self.replacement.make_room(0):  # the expected bytes count as used since the write was opened
            if time.monotonic() > until or not self.claims.depth():
                return True
            self.sleep(0.2)  # a persister is making room
        return False

    def _finish(self, writing: Writing, written: Written) -> Dataset:
        told: dict[str, Any] = {
            "rows": written.rows,
            "digest": written.digest,
            "made_seconds": written.seconds,
            "report": dict(written.report) if written.report is not None else None,
        }
        backend = self.under if writing.straight_down else self.cache
        if not backend.exists(writing.location) or not (manifest := backend.manifest(writing.location)).files:
            raise PersistenceError(f"{writing.ref}: nothing was written to {writing.uri}, not even an empty file")
        if writing.straight_down:
            dataset = self._written_down(writing.dataset, writing.location, manifest, told)
        else:
            dataset = self.catalog.change(
                writing.ref, Event.CACHED, bytes=manifest.bytes, checksum=manifest.checksum, **told
            )
            if self._must_be_synchronous(dataset):
                dataset = self._persist_now(dataset)
            if dataset.bytes > self.replacement.capacity:
                dataset = self._too_large(dataset)
        self._measure(dataset, written, writing.straight_down)
        return self._commit(dataset)

    def _must_be_synchronous(self, dataset: Dataset) -> bool:
        if not dataset.wanted or dataset.strategy in (Strategy.CACHE_ONLY, Strategy.ASYNC_STORE):
            return False
        if dataset.strategy is Strategy.CACHE_THROUGH:
            return True
        lineage = self.catalog.lineage_around([dataset.ref], down=False)
        doubted = self.sync_unproven and bool(lineage.doubts(dataset.ref))
        return doubted or not lineage.recomputable(dataset.ref)

    def _persist_now(self, dataset: Dataset) -> Dataset:
        """Send the bytes and wait; goes on trying for `sync_patience` seconds."""
        until = time.monotonic() + self.sync_patience
        owner = f"writer {socket.gethostname()}:{os.getpid()}"
        while True:
            try:
                with self.sender.attempt(dataset.ref, owner, Method.DATA, None) as attempt:
                    if attempt is None:
                        raise PersistenceError(f"{dataset.ref} changed under its writer's hands")
                    return attempt.send_data(dataset)
            except (StorageUnavailableError, StorageFullError, CorruptCopyError, LeaseLostError) as error:
                if isinstance(error, CorruptCacheError) or time.monotonic() + self.retry_seconds > until:
                    raise
            self.sleep(self.retry_seconds)

    def _too_large(self, dataset: Dataset) -> Dataset:
        if not dataset.persisted:
            dataset = self._persist_now(dataset)
        self.replacement.evict_all_of(dataset, "larger than the whole cache")
        return self.catalog.get(dataset.ref)

    def _written_down(self, dataset: Dataset, half: str, manifest: Manifest, told: dict[str, Any]) -> Dataset:
        final = under_place(dataset.ref, 0)
        whole = replace(dataset, bytes=manifest.bytes, **told)
        beside = sidecar.write(whole, under_checksum=manifest.checksum, under_bytes=manifest.bytes)
        self.under.write_small(half, sidecar.NAME, beside)
        self.under.rename(half, final)
        return self.catalog.change(
            dataset.ref,
            Event.WRITTEN_DOWN,
            why="no room in the cache",
            bytes=manifest.bytes,
            checksum=manifest.checksum,
            under_checksum=manifest.checksum,
            under_location=final,
            persisted_at=db_now(),
            method=Method.DATA.value,
            **told,
        )

    def _commit(self, dataset: Dataset) -> Dataset:
        if not dataset.persisted and dataset.wanted:
            lineage = self.catalog.lineage_around([dataset.ref])
            score = self.policy.score(dataset.ref, lineage, self.catalog.costs(lineage), self.catalog.now())
            return self.catalog.commit(dataset.ref, score=score.value)
        return self.catalog.commit(dataset.ref)

    def _measure(self, dataset: Dataset, written: Written, straight_down: bool) -> None:
        if dataset.call is not None:
            self.catalog.measure(
                dataset.call.name,
                Side.STORAGE if straight_down else Side.CACHE,
                bytes_in=sum(source.bytes for source in self.catalog.get_all(dataset.sources)),
                bytes_out=dataset.bytes,
                seconds=written.seconds,
            )

    def _abandon(self, writing: Writing, error: BaseException) -> None:
        # Whatever ended the write is what the caller must see, not what goes wrong while clearing up.
        with suppress(PersistenceError):
            why = redacted(f"{type(error).__name__}: {error}")[:500]
            report = getattr(error, "report", None)  # a quality gate that stops says what it found
            self.catalog.change(writing.ref, Event.ABANDONED, why=why, error=why, bytes=0, report=report)
        with suppress(PersistenceError):
            self._remove_failed_tries(writing.ref.path)

    def _remove_failed_tries(self, path: str) -> None:
        """Remove the bytes of writes that failed, also of those whose writer died."""
        for dataset in self.catalog.find(path=path, phase=Phase.ABANDONED):
            with suppress(StorageUnavailableError):  # `sweep` takes it up again
                self.restorer.forget(dataset)


def _why_older(origin: Origin) -> str:
    return f"the DAG run {origin.run_id} began before or made it" if origin.run_id else "that one was let go"


_NOT_READABLE = {
    Phase.OPEN: "it is still being written",
    Phase.RETIRED: "it was superseded and is retired",
    Phase.ABANDONED: "its write failed",
}
