"""Datasets, operations and the states they pass through: frozen values that everything else speaks in.

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
from springline.persistence.model.names import unseen_in


class Phase(StrEnum):
    """How far the life of a generation has come."""

    OPEN = "open"  # being written; readers do not see it
    COMMITTED = "committed"
    RETIRED = "retired"  # superseded, its bytes are gone
    ABANDONED = "abandoned"  # its writer failed


class Cache(StrEnum):
    """Where a generation is in the cache."""

    WRITING = "writing"
    PRESENT = "present"
    EVICTED = "evicted"  # let go on purpose, or never let in because it was too large
    LOST = "lost"  # gone by a fault


class Under(StrEnum):
    """Where a generation is in the under-store."""

    NONE = "none"
    COPYING = "copying"
    PRESENT = "present"


class Status(StrEnum):
    """What a person reads; follows from phase, cache, under-store and lineage."""

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
    """When a dataset is persisted, by the names of the paper "An asynchronous storage strategy for Alluxio".

    `CACHE_ONLY`: never. `CACHE_THROUGH`: before its writer goes on. `ASYNC_STORE`: later, by a persister.
    `ASYNC_AND_SYNC`: later, but before its writer goes on where nothing could make it again after a loss.

    Example:
        >>> Strategy("async_store")
        <Strategy.ASYNC_STORE: 'async_store'>
        >>> Strategy.ASYNC_STORE.alluxio
        'ASYNC_THROUGH'
    """

    CACHE_ONLY = "cache_only"
    CACHE_THROUGH = "cache_through"
    ASYNC_STORE = "async_store"
    ASYNC_AND_SYNC = "async_and_sync"

    @property
    def alluxio(self) -> str:
        """The write type of Alluxio that comes nearest."""
        return {
            Strategy.CACHE_ONLY: "MUST_CACHE",
            Strategy.CACHE_THROUGH: "CACHE_THROUGH",
            Strategy.ASYNC_STORE: "ASYNC_THROUGH",
            Strategy.ASYNC_AND_SYNC: "ASYNC_THROUGH",
        }[self]


class Method(StrEnum):
    """What is sent to the under-store: the bytes, or the operation that makes them."""

    DATA = "data"
    OPERATION = "operation"


class Idempotence(StrEnum):
    """How far it may be relied on that running an operation again gives the same rows."""

    PROVEN = "proven"  # declared, and a second run gave the same digest
    DECLARED = "declared"  # and never seen to repeat
    NONE = "none"  # not declared, or a second run gave another digest


class Side(StrEnum):
    """Where an operation runs: beside the cache, or beside the under-store."""

    CACHE = "cache"
    STORAGE = "storage"


_FORBIDDEN = re.compile(r"[\\@:*?\[\]{}]")
_NUMBER = re.compile(r"[0-9]{1,9}")
_LONGEST, _LONGEST_PART = 1000, 200  # bytes


def checked_path(path: str) -> str:
    """Return `path` as it stands if it names a place inside its root, else raise `InvalidPathError`.

    Letters of any script and spaces are welcome. Refused are characters that nobody sees, `@` (it sets the generation
    apart), what Hadoop reads as a scheme or a pattern (`:*?[]{}` and backslashes), `..`, and parts that begin with `.`
    or `_` (such names belong to the stores).
    """
    told = f"dataset path {path!r}" if len(path) <= _LONGEST_PART else f"dataset path {path[:_LONGEST_PART]!r}…"
    if unseen := unseen_in(path):
        raise InvalidPathError(f"{told}: the character {unseen!r}, which nobody sees, is not allowed")
    if found := _FORBIDDEN.search(path):
        raise InvalidPathError(f"{told}: the character {found.group()!r} is not allowed")
    if not path or path.startswith("/") or str(PurePosixPath(path)) != path:
        raise InvalidPathError(f"{told}: give a relative path such as 'etl/2013-01-05/clean'")
    if len(path.encode()) > _LONGEST:
        raise InvalidPathError(f"{told} is longer than {_LONGEST:,} bytes")
    for part in path.split("/"):
        if part == ".." or part[0] in "._":
            raise InvalidPathError(f"{told}: the part {part[:_LONGEST_PART]!r} is not allowed")
        if len(part.encode()) > _LONGEST_PART:
            raise InvalidPathError(f"{told}: the part {part[:20]!r}… is longer than {_LONGEST_PART} bytes")
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

    # A tuple: lineages hash it without end.
    path: str
    generation: int

    def __str__(self) -> str:
        return f"{self.path}@{self.generation}"

    @staticmethod
    def parse(text: str) -> Ref:
        """Read `path@generation`; raises `InvalidPathError`."""
        path, at, generation = text.rpartition("@")
        if not at or not _NUMBER.fullmatch(generation):
            raise InvalidPathError(f"{text[:_LONGEST_PART]!r} is not of the form path@generation")
        return Ref(checked_path(path), int(generation))


@dataclass(frozen=True, slots=True)
class Operation:
    """Registered code, at one version of it, that makes a generation from generations: what a `Runner` declares.

    Args:
        name: of the operation.
        version: of its code, any text; another one stands for changed code.
        idempotent: whether it is declared to give the same rows when it is run again on the same sources.
        checkpoint: whether its output is worth keeping more than others.
        runnable: whether the code of this version is still there; the catalog knows.
        unmasked: whether it was declared idempotent, and a second run gave another digest; the catalog knows.
        repeats: how often a second run gave the same digest; the catalog knows.
        reads: the names of the operations whose outputs it declares as sources.

    Example:
        >>> Operation("split", "1", idempotent=True, reads=("load",)).repeatable
        True
    """

    name: str
    version: str
    idempotent: bool
    checkpoint: bool = False
    runnable: bool = True
    unmasked: bool = False
    repeats: int = 0
    reads: tuple[str, ...] = ()

    @property
    def repeatable(self) -> bool:
        """Running it again on the same sources may be relied on."""
        return self.idempotent and self.runnable and not self.unmasked

    @property
    def idempotence(self) -> Idempotence:
        """Proven, only declared, or none."""
        if not self.idempotent or self.unmasked:
            return Idempotence.NONE
        return Idempotence.PROVEN if self.repeats else Idempotence.DECLARED


@dataclass(frozen=True, slots=True)
class Call:
    """The application of an operation that made a generation: which code, with which parameters.

    Args:
        name: of the operation.
        version: of its code.
        params: texts by name.

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
        run_id: of the DAG run: tasks of one run see the generations that were there when it began, and its own.
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

    The catalog and the store give it; nobody else makes one, but for tests of policies.

    Attributes:
        ref: its name.
        phase: how far its life has come: open, committed, retired or abandoned.
        cache: where it is in the cache: writing, present, evicted or lost.
        under: where it is in the under-store: none, copying or present.
        bytes: of all files; 0 while it is written.
        rows: where they are known.
        checksum: of the files' bytes in the cache.
        digest: of the rows, whatever their order and encoding.
        strategy: when it is persisted.
        wanted: whether anybody wants it in the under-store.
        checkpoint: whether it is worth keeping more than others.
        pinned: by a person: it is never evicted.
        head: whether a person put it at the head of the queue.
        reads: how often it was read.
        call: the application of an operation that made it; None: nothing can make it again.
        sources: the generations that it was made from.
        origin: the DAG run and the task that made it.
        made_seconds: what its operation took.
        created_at: when its writing began.
        committed_at: since when readers see it.
        persisted_at: when a verified copy was in the under-store.
        last_read_at: when it was last read.
        method: whether its data is sent or its operation is run below, once that is decided.
        predicted_seconds: of that transfer.
        actual_seconds: of that transfer.
        attempts: how often persisting it was tried.
        error: of the last attempt, in words; empty: none.
        cache_location: where it lies in the cache, relative to the store's root.
        under_location: the same in the under-store.
        under_checksum: of the files' bytes there; another one if the operation made them there.
        report: of the quality gate.
        superseded: whether a newer committed generation of the path exists.

    Example:
        >>> Dataset(Ref("etl/clean", 3), bytes=1_000).persisted
        False
    """

    ref: Ref
    phase: Phase = Phase.COMMITTED
    cache: Cache = Cache.PRESENT
    under: Under = Under.NONE
    bytes: int = 0
    rows: int | None = None
    checksum: str = ""  # of the files' bytes
    digest: str = ""  # of the rows, whatever their order and encoding
    strategy: Strategy = Strategy.ASYNC_AND_SYNC
    wanted: bool = True  # someone wants it in the under-store
    checkpoint: bool = False
    pinned: bool = False  # by a person: never evicted
    head: bool = False  # at the head of the queue whatever its priority
    reads: int = 0
    call: Call | None = None
    sources: tuple[Ref, ...] = ()
    origin: Origin = Origin()
    made_seconds: float | None = None  # what its operation took
    created_at: float = 0.0
    committed_at: float | None = None
    persisted_at: float | None = None
    last_read_at: float | None = None
    method: Method | None = None  # how it was, or is being, persisted
    predicted_seconds: float | None = None  # of that transfer
    actual_seconds: float | None = None
    attempts: int = 0
    error: str = ""
    cache_location: str = ""  # relative to the backend's root
    under_location: str = ""
    under_checksum: str = ""  # of the files' bytes in the under-store; another one if the operation made them there
    report: Mapping[str, object] | None = None  # of the quality gate
    superseded: bool = False  # a newer committed generation of the path exists

    @property
    def persisted(self) -> bool:
        """A verified copy is in the under-store."""
        return self.under is Under.PRESENT

    @property
    def in_cache(self) -> bool:
        """Its whole bytes are in the cache."""
        return self.cache is Cache.PRESENT

    @property
    def available(self) -> bool:
        """Its bytes can be read somewhere now."""
        return self.phase in (Phase.OPEN, Phase.COMMITTED) and (self.in_cache or self.persisted)

    @property
    def last_used_at(self) -> float:
        """When it was last read, else when it was made."""
        return self.last_read_at or self.committed_at or self.created_at

    def status(self, *, recomputable: bool = True) -> Status:
        """What a person reads; `recomputable` is the lineage's answer for this generation."""
        if self.phase is Phase.OPEN:
            return Status.WRITING
        if self.phase is not Phase.COMMITTED:
            return Status(self.phase.value)
        if self.persisted:
            return Status.EVICTED if self.cache is Cache.EVICTED else Status.PERSISTED
        if self.in_cache:
            return Status.PERSISTING if self.under is Under.COPYING else Status.CACHED
        if not recomputable:
            return Status.IRRECOVERABLE
        return Status.LOST if self.cache is Cache.LOST else Status.EVICTED


@dataclass(frozen=True, slots=True)
class Moment:
    """One change of state of one generation, as the catalog logged it: what, to which state, by whom and why."""

    ref: Ref
    at: float
    event: str
    phase: Phase
    cache: Cache
    under: Under
    who: str
    why: str


@dataclass(frozen=True, slots=True)
class Written:
    """What an operation says of the output that it wrote: what `Runner.run` returns.

    Args:
        rows: how many there are.
        digest: a text that is the same for the same rows, whatever their order and encoding.
        seconds: that the run took.
        report: of a quality gate, JSON values by name.

    Example:
        >>> Written(rows=2, digest="4f", seconds=0.5).rows
        2
    """

    rows: int
    digest: str
    seconds: float
    report: Mapping[str, object] | None = None
