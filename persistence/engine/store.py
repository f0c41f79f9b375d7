"""The interface for jobs: write and read datasets under a strategy, at memory speed where the strategy allows it."""

from __future__ import annotations

import errno
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from springline.persistence.backends.copy_layout import (
    publish_copy,
    require_no_foreign_copies,
    sweep_under,
    under_copy_location,
)
from springline.persistence.backends.spec import Backend, UnderStore
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
from springline.persistence.model.dataset import (
    Call,
    Dataset,
    ExecutionSide,
    Operation,
    OperationResult,
    Origin,
    Phase,
    Ref,
    Strategy,
    TransferMethod,
)
from springline.persistence.model.manifest import Manifest, require_free_names
from springline.persistence.model.transitions import Event
from springline.persistence.text.formatting import format_bytes
from springline.persistence.text.redaction import redact_secrets

logger = logging.getLogger("springline.store")


@dataclass(frozen=True)
class OpenRead:
    """A generation that is being read, at a URI that Spark can read."""

    dataset: Dataset
    uri: str

    @property
    def ref(self) -> Ref:
        """The generation that is read."""
        return self.dataset.ref


@dataclass
class OpenWrite:
    """A generation that is being written into the folder `uri`, which does not exist yet."""

    dataset: Dataset
    uri: str
    location: str = ""
    bypasses_cache: bool = False
    result: OperationResult | None = None

    @property
    def ref(self) -> Ref:
        """The generation that is written."""
        return self.dataset.ref

    def mark_complete(self, result: OperationResult) -> None:
        """Mark the folder as completely written, with `result` describing its content."""
        self.result = result


@dataclass
class Store:
    """Reads and writes datasets; `Strategy` defines when they are persisted."""

    catalog: Catalog
    claims: Claims
    cache: Backend
    under: UnderStore
    sender: Sender
    restorer: Restorer
    replacement: Replacement
    policy: Policy
    reader_seconds: float
    retry_seconds: float
    sync_timeout: float
    sync_unproven: bool = False
    sleep: Callable[[float], None] = time.sleep

    def register_operations(self, operations: Iterable[Operation]) -> None:
        """Record the operations whose code is available; see `Catalog.register_operations`."""
        self.catalog.register_operations(operations)

    def begin_run(self, origin: Origin) -> None:
        """Record that a DAG run began: it sees its own output, else the newest generations committed by now."""
        self.catalog.begin_run(origin)

    @contextmanager
    def read(self, path: str, *, origin: Origin = Origin(), generation: int | None = None) -> Iterator[OpenRead]:
        """Read the newest generation visible to `origin`, or the generation number `generation`.

        Inside the block it is neither evicted nor retired. A lost generation is restored first, an
        evicted one is fetched if it fits. Raises `UnknownDatasetError`, `IrrecoverableError`.
        """
        while True:
            ref = self.catalog.resolve(path, origin).ref if generation is None else Ref(path, generation)
            with self.catalog.hold_for_reading(ref, self.reader_seconds) as dataset:
                if dataset.phase is not Phase.COMMITTED:
                    if generation is None:
                        continue  # it was retired just now: there is a newer one
                    raise UnknownDatasetError(f"{ref} cannot be read: {_NOT_READABLE[dataset.phase]}")
                if generation is None and dataset.superseded:
                    logger.info("%s is read, though a newer generation was committed: %s", ref, _explain_older(origin))
                dataset = self._ensure_readable(dataset)
                location = dataset.cache_location if dataset.in_cache else dataset.under_location
                yield OpenRead(dataset, (self.cache if dataset.in_cache else self.under).uri(location))
                return

    def committed_by_earlier_try(
        self, path: str, *, call: Call | None, sources: Sequence[Ref], origin: Origin
    ) -> Dataset | None:
        """Return what an earlier try of the same task in the same DAG run has committed from the same sources, or None.

        A generation that has become irrecoverable is not reused.
        """
        if not origin.run_id:
            return None
        for dataset in self.catalog.find(path=path, origin=origin, phase=Phase.COMMITTED, limit=10):
            same = dataset.call == call and dataset.sources == tuple(sources)
            if same and self.restorer.is_recoverable(dataset):
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
        persist_requested: bool = True,
    ) -> Iterator[OpenWrite]:
        """Write the next generation of `path` into `OpenWrite.uri`; call `OpenWrite.mark_complete` before leaving.

        Leaving without an error commits it, after persisting it if the strategy requires that;
        an error abandons it. Raises `InvalidPathError`, `StorageFullError`, `StorageUnavailableError`.
        """
        expected_bytes = self._expected_bytes(call, sources)
        dataset = self.catalog.begin(
            path, call=call, sources=sources, strategy=strategy, origin=origin, checkpoint=checkpoint,
            persist_requested=persist_requested, expected_bytes=expected_bytes,
        )  # fmt: skip
        writing = OpenWrite(dataset, "")
        try:
            self._remove_failed_tries(path)
            if self._must_bypass_cache(expected_bytes):
                writing.bypasses_cache = True
                require_no_foreign_copies(sweep_under(self.under, dataset, before=0))
                writing.location = under_copy_location(dataset.ref, 0)
                writing.uri = self.under.uri(writing.location)
            else:
                writing.location = dataset.cache_location
                self.cache.delete(writing.location)  # files that a lost catalog may have left
                writing.uri = self.cache.uri(writing.location)
            yield writing
            if writing.result is None:
                raise PersistenceError(f"{dataset.ref}: the write ended without mark_complete()")
            writing.dataset = self._finish(writing, writing.result)
        except BaseException as error:
            written_bytes = self._written_bytes(writing) if (is_full := _is_disk_full(error)) else 0
            self._abandon(writing, error)
            if is_full and not writing.bypasses_cache:
                with suppress(PersistenceError):  # the error that ended the write matters more
                    self.replacement.ensure_free_bytes(2 * written_bytes)
            if isinstance(error, OSError) and is_full:
                raise StorageFullError(
                    f"{writing.ref}: no space left at {writing.uri} after {format_bytes(written_bytes)}; what can be "
                    "evicted was: try again, or free space on that disk"
                ) from error
            raise
        with suppress(StorageUnavailableError):  # it is committed: the next writer frees the space
            self.replacement.ensure_free_bytes(0)

    # ---- reading

    def _ensure_readable(self, dataset: Dataset) -> Dataset:
        dataset = self.restorer.verifier.verify(dataset)
        if dataset.in_cache:
            return dataset
        if dataset.persisted and self.replacement.ensure_free_bytes(dataset.bytes):
            return dataset  # it does not fit: read it from the under-store
        report = self.restorer.restore([dataset.ref])
        if causes := report.irrecoverable.get(dataset.ref):
            raise IrrecoverableError(f"{dataset.ref} is lost and irrecoverable: {'; '.join(causes)}")
        dataset = self.catalog.get(dataset.ref)
        if dataset.persisted and isinstance(report.failed.get(dataset.ref), StorageFullError):
            return dataset  # the cache took less than its capacity: read it from the under-store
        report.require_all()
        return dataset

    # ---- writing

    def _expected_bytes(self, call: Call | None, sources: Sequence[Ref]) -> int:
        growth = self.catalog.output_ratio(call.name) if call else None
        if growth is None:
            return 0
        return int(growth * sum(source.bytes for source in self.catalog.get_all(sources)))

    def _must_bypass_cache(self, expected_bytes: int) -> bool:
        """Free space for a write; returns True if it has to go directly to the under-store."""
        if expected_bytes > self.replacement.capacity:
            return True
        deadline = time.monotonic() + self.sync_timeout
        while self.replacement.ensure_headroom():  # the expected bytes count as used since the write was opened
            if time.monotonic() > deadline or not self.claims.depth():
                return True
            self.sleep(0.2)  # a persister is freeing space
        return False

    def _finish(self, writing: OpenWrite, result: OperationResult) -> Dataset:
        columns: dict[str, Any] = {
            "rows": result.rows,
            "digest": result.digest,
            "compute_seconds": result.seconds,
            "report": dict(result.report) if result.report is not None else None,
        }
        manifest = self._written_manifest(writing)
        if writing.bypasses_cache:
            dataset = self._record_bypassing_write(writing.dataset, writing.location, manifest, columns)
        else:
            dataset = self.catalog.change(
                writing.ref, Event.CACHED, bytes=manifest.bytes, checksum=manifest.checksum, **columns
            )
            if self._must_persist_synchronously(dataset):
                dataset = self._persist_now(dataset)
            if dataset.bytes > self.replacement.capacity:
                dataset = self._evict_oversized(dataset)
        self._record_measurement(dataset, result, writing.bypasses_cache)
        return self._commit(dataset)

    def _written_manifest(self, writing: OpenWrite) -> Manifest:
        """Return the manifest of what was written; raises `PersistenceError` if that is nothing, or lost by now."""
        backend = self.under if writing.bypasses_cache else self.cache
        require_free_names(backend.names(writing.location), str(writing.ref))  # which a manifest leaves out
        with suppress(FileNotFoundError):
            manifest = backend.manifest(writing.location)
            require_free_names((file.name for file in manifest.files), str(writing.ref))
            if manifest.files:
                return manifest
        raise PersistenceError(f"{writing.ref}: nothing was written to {writing.uri}, not even an empty file")

    def _must_persist_synchronously(self, dataset: Dataset) -> bool:
        if not dataset.persist_requested or dataset.strategy in (Strategy.CACHE_ONLY, Strategy.ASYNC_STORE):
            return False
        if dataset.strategy is Strategy.CACHE_THROUGH:
            return True
        lineage = self.catalog.lineage_around([dataset.ref], down=False)
        is_unproven = self.sync_unproven and bool(lineage.unproven_reasons(dataset.ref))
        return is_unproven or not lineage.is_recomputable(dataset.ref)

    def _persist_now(self, dataset: Dataset) -> Dataset:
        """Send the bytes synchronously, retrying for up to `sync_timeout` seconds."""
        deadline = time.monotonic() + self.sync_timeout
        owner = f"writer {socket.gethostname()}:{os.getpid()}"
        while True:
            try:
                with self.sender.attempt(dataset.ref, owner, TransferMethod.DATA, None) as attempt:
                    if attempt is None:
                        raise PersistenceError(f"{dataset.ref} was changed by another process during its write")
                    return attempt.send_data(dataset)
            except (StorageUnavailableError, StorageFullError, CorruptCopyError, LeaseLostError) as error:
                if isinstance(error, CorruptCacheError) or time.monotonic() + self.retry_seconds > deadline:
                    raise
            self.sleep(self.retry_seconds)

    def _evict_oversized(self, dataset: Dataset) -> Dataset:
        if not dataset.persisted:
            dataset = self._persist_now(dataset)
        self.replacement.evict_persisted(dataset, "larger than the cache")
        return self.catalog.get(dataset.ref)

    def _record_bypassing_write(
        self, dataset: Dataset, location: str, manifest: Manifest, columns: dict[str, Any]
    ) -> Dataset:
        publish_copy(self.under, location, replace(dataset, bytes=manifest.bytes, **columns), manifest)
        return self.catalog.change(
            dataset.ref,
            Event.WRITTEN_TO_UNDER_STORE,
            reason="no free space in the cache",
            bytes=manifest.bytes,
            checksum=manifest.checksum,
            under_checksum=manifest.checksum,
            under_location=location,
            persisted_at=db_now(),
            method=TransferMethod.DATA.value,
            **columns,
        )

    def _commit(self, dataset: Dataset) -> Dataset:
        if not dataset.persisted and dataset.persist_requested:
            lineage = self.catalog.lineage_around([dataset.ref])
            score = self.policy.score(dataset.ref, lineage, self.catalog.load_cost_model(lineage), self.catalog.now())
            return self.catalog.commit(dataset.ref, score=score.value)
        return self.catalog.commit(dataset.ref)

    def _record_measurement(self, dataset: Dataset, result: OperationResult, bypasses_cache: bool) -> None:
        if dataset.call is not None:
            self.catalog.record_measurement(
                dataset.call.name,
                ExecutionSide.STORAGE if bypasses_cache else ExecutionSide.CACHE,
                bytes_in=sum(source.bytes for source in self.catalog.get_all(dataset.sources)),
                bytes_out=dataset.bytes,
                seconds=result.seconds,
            )

    def _written_bytes(self, writing: OpenWrite) -> int:
        with suppress(PersistenceError, OSError):
            return sum(
                file.bytes for file in (self.under if writing.bypasses_cache else self.cache).files(writing.location)
            )
        return 0

    def _abandon(self, writing: OpenWrite, error: BaseException) -> None:
        # The caller must see the error that ended the write, not one raised during cleanup.
        with suppress(PersistenceError):
            reason = redact_secrets(f"{type(error).__name__}: {error}")[:500]
            report = getattr(error, "report", None)  # a quality gate that stops the job reports its findings
            self.catalog.change(writing.ref, Event.ABANDONED, reason=reason, error=reason, bytes=0, report=report)
        with suppress(PersistenceError):
            self._remove_failed_tries(writing.ref.path)

    def _remove_failed_tries(self, path: str) -> None:
        """Remove the files of abandoned writes, also of those whose writer died."""
        for dataset in self.catalog.find(path=path, phase=Phase.ABANDONED):
            with suppress(StorageUnavailableError):  # `sweep` retries
                self.restorer.remove_copies(dataset)


def _is_disk_full(error: BaseException) -> bool:
    return (
        isinstance(error, StorageFullError)
        or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
        or os.strerror(errno.ENOSPC) in str(error)  # as an engine reports it
    )


def _explain_older(origin: Origin) -> str:
    return (
        f"the DAG run {origin.run_id} started earlier or made it"
        if origin.run_id
        else "that generation is no longer open"
    )


_NOT_READABLE = {
    Phase.OPEN: "it is still being written",
    Phase.RETIRED: "it was superseded and retired",
    Phase.ABANDONED: "its write failed",
}
