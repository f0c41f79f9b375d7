"""Datasets, operations and their states: the frozen values that all other modules use.

Source: docs/persistence.md; terms of the paper "An asynchronous storage strategy for Alluxio".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from typing import NamedTuple

from springline.persistence.errors import InvalidPathError
from springline.persistence.model.invisible_characters import find_invisible


class Phase(StrEnum):
    """The phase in the life cycle of a generation."""

    OPEN = "open"  # being written; readers do not see it
    COMMITTED = "committed"
    RETIRED = "retired"  # superseded, its bytes are deleted
    ABANDONED = "abandoned"  # its writer failed


class CacheState(StrEnum):
    """State of a generation in the cache."""

    WRITING = "writing"
    PRESENT = "present"
    EVICTED = "evicted"  # removed on purpose, or never admitted because it was too large
    LOST = "lost"  # lost by a fault


class UnderStoreState(StrEnum):
    """State of a generation in the under-store."""

    NONE = "none"
    COPYING = "copying"
    PRESENT = "present"


class DatasetStatus(StrEnum):
    """The status displayed to people; derived from phase, cache, under-store and lineage."""

    WRITING = "writing"
    CACHED = "cached"
    PERSISTING = "persisting"
    PERSISTED = "persisted"
    EVICTED = "evicted"
    LOST = "lost"
    IRRECOVERABLE = "irrecoverable"
    RETIRED = "retired"
    ABANDONED = "abandoned"


class Strategy(StrEnum):
    """When a dataset is persisted, with the names of the paper "An asynchronous storage strategy for Alluxio".

    `CACHE_ONLY`: never. `CACHE_THROUGH`: before its writer continues. `ASYNC_STORE`: later, by a persister.
    `ASYNC_AND_SYNC`: later, but before its writer continues if nothing could recompute it after a loss.

    Example:
        >>> Strategy("async_store")
        <Strategy.ASYNC_STORE: 'async_store'>
        >>> Strategy.ASYNC_STORE.alluxio_write_type
        'ASYNC_THROUGH'
    """

    CACHE_ONLY = "cache_only"
    CACHE_THROUGH = "cache_through"
    ASYNC_STORE = "async_store"
    ASYNC_AND_SYNC = "async_and_sync"

    @property
    def alluxio_write_type(self) -> str:
        """The closest write type of Alluxio."""
        return {
            Strategy.CACHE_ONLY: "MUST_CACHE",
            Strategy.CACHE_THROUGH: "CACHE_THROUGH",
            Strategy.ASYNC_STORE: "ASYNC_THROUGH",
            Strategy.ASYNC_AND_SYNC: "ASYNC_THROUGH",
        }[self]


class TransferMethod(StrEnum):
    """What is sent to the under-store: the bytes, or the operation that makes them."""

    DATA = "data"
    OPERATION = "operation"


class Idempotence(StrEnum):
    """How certain it is that a re-run of an operation returns the same rows."""

    PROVEN = "proven"  # declared, and a second run gave the same digest
    DECLARED = "declared"  # declared, and not yet confirmed by a second run
    NONE = "none"  # not declared, or a second run gave another digest


class ExecutionSide(StrEnum):
    """Where an operation runs: beside the cache, or beside the under-store."""

    CACHE = "cache"
    STORAGE = "storage"


_FORBIDDEN = re.compile(r"[\\@:*?\[\]{}]")
_NUMBER = re.compile(r"[0-9]{1,9}")
_MAX_PATH_BYTES, _MAX_PART_BYTES = 1000, 200  # bytes


def validate_path(path: str) -> str:
    """Return `path` unchanged if it names a place inside its root, else raise `InvalidPathError`.

    Letters of any script and spaces are allowed. Not allowed are invisible characters, `@` (it separates the
    generation number), what Hadoop reads as a scheme or a pattern (`:*?[]{}` and backslashes), `..`, and parts that
    begin with `.` or `_` (such names belong to the stores).
    """
    subject = f"dataset path {path!r}" if len(path) <= _MAX_PART_BYTES else f"dataset path {path[:_MAX_PART_BYTES]!r}…"
    if invisible := find_invisible(path):
        raise InvalidPathError(f"{subject}: the character {invisible!r}, which is invisible, is not allowed")
    if forbidden := _FORBIDDEN.search(path):
        raise InvalidPathError(f"{subject}: the character {forbidden.group()!r} is not allowed")
    if not path or path.startswith("/") or str(PurePosixPath(path)) != path:
        raise InvalidPathError(f"{subject}: give a relative path such as 'etl/2013-01-05/clean'")
    if len(path.encode()) > _MAX_PATH_BYTES:
        raise InvalidPathError(f"{subject} is longer than {_MAX_PATH_BYTES:,} bytes")
    for part in path.split("/"):
        if part == ".." or part[0] in "._":
            raise InvalidPathError(f"{subject}: the part {part[:_MAX_PART_BYTES]!r} is not allowed")
        if len(part.encode()) > _MAX_PART_BYTES:
            raise InvalidPathError(f"{subject}: the part {part[:20]!r}… is longer than {_MAX_PART_BYTES} bytes")
    return path


class Ref(NamedTuple):
    """The name of one generation of a dataset: a path below the root, and a number that counts from 1.

    Attributes:
        path: such as `etl/2013-01-05/clean`.
        generation: the number; each write of the path makes the next one.

    Raises:
        InvalidPathError: from `Ref.parse`, for a text of another form.

    Example:
        >>> ref = Ref.parse("etl/2013-01-05/clean@3")
        >>> ref.path, ref.generation, str(ref)
        ('etl/2013-01-05/clean', 3, 'etl/2013-01-05/clean@3')
    """

    # A tuple, because lineages hash it very often.
    path: str
    generation: int

    def __str__(self) -> str:
        return f"{self.path}@{self.generation}"

    @staticmethod
    def parse(text: str) -> Ref:
        """Parse `path@generation`; raises `InvalidPathError`."""
        path, separator, generation = text.rpartition("@")
        if not separator or not _NUMBER.fullmatch(generation):
            raise InvalidPathError(f"{text[:_MAX_PART_BYTES]!r} is not of the form path@generation")
        return Ref(validate_path(path), int(generation))


@dataclass(frozen=True, slots=True)
class Operation:
    """Registered code in one version that makes a generation from generations, as a `Runner` declares it.

    Args:
        name: of the operation.
        version: of its code, any text; changed code has another version.
        idempotent: whether it is declared to give the same rows when it is re-run on the same sources.
        checkpoint: whether its output has a higher priority for being persisted.
        runnable: whether the code of this version is still available; set by the catalog.
        nondeterministic: whether it was declared idempotent, and a second run gave another digest; set by the catalog.
        repeats: how often a second run gave the same digest; set by the catalog.
        reads: the names of the operations whose outputs it declares as sources.
        output: the path template of its output, such as `etl/{ds}/clean`; empty if it has none.

    Example:
        >>> Operation("split", "1", idempotent=True, reads=("load",)).repeatable
        True
    """

    name: str
    version: str
    idempotent: bool
    checkpoint: bool = False
    runnable: bool = True
    nondeterministic: bool = False
    repeats: int = 0
    reads: tuple[str, ...] = ()
    output: str = ""

    @property
    def repeatable(self) -> bool:
        """Whether a re-run on the same sources can be relied on."""
        return self.idempotent and self.runnable and not self.nondeterministic

    @property
    def idempotence(self) -> Idempotence:
        """Proven, only declared, or none."""
        if not self.idempotent or self.nondeterministic:
            return Idempotence.NONE
        return Idempotence.PROVEN if self.repeats else Idempotence.DECLARED


@dataclass(frozen=True, slots=True)
class Call:
    """The application of an operation that made a generation: which code, with which parameters.

    Args:
        name: of the operation.
        version: of its code.
        params: strings by name.

    Example:
        >>> Call("load", "1", {"ds": "2013-01-05"}).params["ds"]
        '2013-01-05'
    """

    name: str
    version: str
    params: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Origin:
    """The DAG run and the task that made a generation, or read one; all empty outside of Airflow.

    Args:
        dag_id: of the DAG.
        run_id: of the DAG run: tasks of a run see the generations that existed when it began, and its own.
        task_id: of the task.

    Example:
        >>> Origin("etl", "scheduled__2013-01-05").task_id
        ''
    """

    dag_id: str = ""
    run_id: str = ""
    task_id: str = ""


@dataclass(frozen=True, slots=True)
class Dataset:
    """One write-once generation of a logical path, as the catalog records it. Times: seconds since 1970.

    The catalog and the store create it; do not construct it elsewhere, except in tests of policies.

    Attributes:
        ref: its name.
        phase: of its life cycle: open, committed, retired or abandoned.
        cache: its state in the cache: writing, present, evicted or lost.
        under: its state in the under-store: none, copying or present.
        bytes: of all files; 0 while it is written.
        rows: number of rows, if known.
        checksum: of the files' bytes in the cache.
        digest: of the rows, independent of their order and encoding.
        strategy: when it is persisted.
        persist_requested: whether it is to be persisted.
        checkpoint: whether it has a higher priority for being persisted.
        pinned: whether a person has excluded it from eviction.
        expedited: whether it is at the head of the queue, regardless of its score.
        reads: how often it was read.
        call: the application of an operation that made it; None: it cannot be recomputed.
        sources: the generations that it was made from.
        origin: the DAG run and the task that made it.
        compute_seconds: duration of its operation.
        created_at: when its write began.
        committed_at: when it became visible to readers.
        persisted_at: when a verified copy was in the under-store.
        last_read_at: when it was last read.
        method: whether it is persisted as data or as operation, once that is decided.
        predicted_seconds: of that transfer.
        actual_seconds: of that transfer.
        attempts: how many transfers were attempted.
        error: message of the last failed attempt; empty: none.
        cache_location: its location in the cache, relative to the store's root.
        under_location: the same in the under-store.
        under_checksum: of the files' bytes there; differs from `checksum` if the operation was run there.
        report: of the quality gate.
        superseded: whether a newer committed generation of the path exists.

    Example:
        >>> Dataset(Ref("etl/clean", 3), bytes=1_000).persisted
        False
    """

    ref: Ref
    phase: Phase = Phase.COMMITTED
    cache: CacheState = CacheState.PRESENT
    under: UnderStoreState = UnderStoreState.NONE
    bytes: int = 0
    rows: int | None = None
    checksum: str = ""  # of the files' bytes
    digest: str = ""  # of the rows, independent of their order and encoding
    strategy: Strategy = Strategy.ASYNC_AND_SYNC
    persist_requested: bool = True  # to be written to the under-store
    checkpoint: bool = False
    pinned: bool = False  # by a person: never evicted
    expedited: bool = False  # at the head of the queue regardless of its score
    reads: int = 0
    call: Call | None = None
    sources: tuple[Ref, ...] = ()
    origin: Origin = Origin()
    compute_seconds: float | None = None  # duration of its operation
    created_at: float = 0.0
    committed_at: float | None = None
    persisted_at: float | None = None
    last_read_at: float | None = None
    method: TransferMethod | None = None  # how it was, or is being, persisted
    predicted_seconds: float | None = None  # of that transfer
    actual_seconds: float | None = None
    attempts: int = 0
    error: str = ""
    cache_location: str = ""  # relative to the backend's root
    under_location: str = ""
    under_checksum: str = ""  # of the bytes in the under-store; differs if the operation was run there
    report: Mapping[str, object] | None = None  # of the quality gate
    superseded: bool = False  # a newer committed generation of the path exists

    @property
    def persisted(self) -> bool:
        """Whether a verified copy is in the under-store."""
        return self.under is UnderStoreState.PRESENT

    @property
    def in_cache(self) -> bool:
        """Whether all its bytes are in the cache."""
        return self.cache is CacheState.PRESENT

    @property
    def available(self) -> bool:
        """Whether its bytes can be read now, from either store."""
        return self.phase in (Phase.OPEN, Phase.COMMITTED) and (self.in_cache or self.persisted)

    @property
    def last_used_at(self) -> float:
        """When it was last read, else when it was made."""
        return self.last_read_at or self.committed_at or self.created_at

    def status(self, *, recomputable: bool = True) -> DatasetStatus:
        """Return the status displayed to people; `recomputable`: whether what is left restores it, by its lineage."""
        return status_of(self.phase, self.cache, self.under, recomputable=recomputable)


def status_of(phase: str, cache: str, under: str, *, recomputable: bool = True) -> DatasetStatus:
    """Return the status of a generation by the values of its states; see `Dataset.status`."""
    if phase == Phase.OPEN:
        return DatasetStatus.WRITING
    if phase != Phase.COMMITTED:
        return DatasetStatus(phase)
    if under == UnderStoreState.PRESENT:
        return DatasetStatus.EVICTED if cache == CacheState.EVICTED else DatasetStatus.PERSISTED
    if cache == CacheState.PRESENT:
        return DatasetStatus.PERSISTING if under == UnderStoreState.COPYING else DatasetStatus.CACHED
    if not recomputable:
        return DatasetStatus.IRRECOVERABLE
    return DatasetStatus.LOST if cache == CacheState.LOST else DatasetStatus.EVICTED


@dataclass(frozen=True, slots=True)
class StateChange:
    """One logged change of state of one generation: the event, the new state, the actor and the reason."""

    ref: Ref
    timestamp: float
    event: str
    phase: Phase
    cache: CacheState
    under: UnderStoreState
    actor: str
    reason: str


@dataclass(frozen=True, slots=True)
class OperationResult:
    """Description of the output of an operation run, as `Runner.run` returns it.

    Args:
        rows: number of rows.
        digest: a text that is the same for the same rows, independent of their order and encoding.
        seconds: duration of the run.
        report: of a quality gate, JSON values by name.

    Example:
        >>> OperationResult(rows=2, digest="4f", seconds=0.5).rows
        2
    """

    rows: int
    digest: str
    seconds: float
    report: Mapping[str, object] | None = None
