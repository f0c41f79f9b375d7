"""`springline://`: datasets as a file system of fsspec, read-only, for whatever reads files by fsspec.

pandas.read_parquet("springline://etl/2013-01-05/clean")      the newest version
pandas.read_parquet("springline://etl/2013-01-05/clean@3")    version 3, the generation of that number
"""

from __future__ import annotations

import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from errno import EISDIR, ENOENT, EROFS
from typing import Any, BinaryIO, NoReturn, cast

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from springline.persistence.backends.copy_layout import parse_location, read_copy
from springline.persistence.backends.local import LocalBackend
from springline.persistence.backends.spec import Backend
from springline.persistence.errors import InvalidPathError, PersistenceError, UnknownDatasetError
from springline.persistence.model.dataset import Dataset, Phase, Ref
from springline.persistence.model.manifest import File
from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings

_VERSION = re.compile(r"(?P<name>[^@]+)@(?P<generation>[0-9]{1,9})")
_HOLD_SECONDS = 3600.0
_BLOCK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A generation as it is read: which one, from which store, and its files by name."""

    dataset: Dataset
    backend: Backend
    location: str
    files: Mapping[str, File]
    expires_at: float
    hold: ExitStack  # ends the reading


class DatasetFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The datasets of a platform as folders, and their files in them: a file system of fsspec, read-only.

    A path is that of a dataset, with or without `@` and a version (the number of a generation), and the name of a file
    below it. Without a version it is the newest one, and stays that one for `hold_seconds`, so that a folder is read as
    it was listed; in that time it is neither evicted nor retired. It is read from the cache if it is there, else from
    the under-store; what was lost is restored first.

    Args:
        hold_seconds: for how long a version that was listed or described is held, in seconds.
        settings: fields of `springline.Settings` by name, in addition to the environment and the profile; tools take
            them as `storage_options`.

    Raises:
        FileNotFoundError: there is no such dataset, version or file.
        IrrecoverableError: the dataset is lost, and nothing restores it.
        OSError: every call that would write.

    Example:
        >>> from springline.testing import make_dataset, platform_in
        >>> with platform_in(folder) as platform:
        ...     _ = make_dataset(platform, "words/load", lines=["to be"])
        ...     filesystem = DatasetFileSystem.over(platform)
        ...     (name,) = filesystem.ls("springline://words/load", detail=False)
        ...     filesystem.cat_file(name), filesystem.info("words/load@1")["type"]
        (b'to be\\n', 'directory')
    """

    protocol = "springline"
    root_marker = ""

    def __init__(self, hold_seconds: float = _HOLD_SECONDS, **settings: Any) -> None:
        options = {name: settings.pop(name) for name in _FSSPEC_OPTIONS if name in settings}
        super().__init__(**options)
        self._hold_seconds = hold_seconds
        self._settings = settings
        self._lock = threading.RLock()
        self._platforms: dict[int, Platform] = {}  # by process: connections do not outlive a fork
        self._snapshots: dict[tuple[str, int | None], _Snapshot] = {}
        weakref.finalize(self, _release, self._snapshots)

    @classmethod
    def over(cls, platform: Platform) -> DatasetFileSystem:
        """Return the file system of an open platform, which is to be closed after it."""
        filesystem = cls(skip_instance_cache=True)
        filesystem._platforms[os.getpid()] = platform
        return filesystem

    # ---- reading

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """List a folder; a file is listed as itself."""
        path = self._strip_protocol(path)
        snapshot, prefix, name = self._find(path)
        if snapshot is None:
            infos = [self._folder_info(f"{path}/{part}" if path else part) for part in self._parts_below(path)]
            if not infos and path:
                raise _missing(path)
        elif name in snapshot.files:
            infos = [self._file_info(snapshot, prefix, name)]
        else:
            infos = list(self._entries(snapshot, prefix, name))
            if not infos and name:
                raise _missing(path)
        return infos if detail else [info["name"] for info in infos]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Describe a file or a folder; that of a dataset with its version, rows and digest."""
        path = self._strip_protocol(path)
        snapshot, prefix, name = self._find(path)
        if snapshot is None:
            if path and not self._parts_below(path):
                raise _missing(path)
            return self._folder_info(path)
        if name in snapshot.files:
            return self._file_info(snapshot, prefix, name)
        if not name:
            dataset = snapshot.dataset
            return {
                **self._folder_info(path), "version": dataset.ref.generation, "rows": dataset.rows,
                "bytes": dataset.bytes, "digest": dataset.digest, "created": _moment(snapshot),
            }  # fmt: skip
        if not any(each.startswith(f"{name}/") for each in snapshot.files):
            raise _missing(path)
        return self._folder_info(path)

    def spark_uri(self, path: str) -> str:
        """Return the URI at which Spark reads the dataset at `path`, such as `s3a://…`."""
        snapshot, _, name = self._find(self._strip_protocol(path))
        if snapshot is None or name:
            raise _missing(path)
        return snapshot.backend.uri(snapshot.location)

    def created(self, path: str) -> datetime:
        """Return when the version of a path was committed."""
        snapshot, _, _ = self._find(self._strip_protocol(path))
        if snapshot is None:
            raise _missing(path)
        return _moment(snapshot)

    modified = created

    def ukey(self, path: str) -> str:
        """Return a text that is another one for another content: version and name."""
        snapshot, _, name = self._find(self._strip_protocol(path))
        return f"{snapshot.dataset.ref}/{name}" if snapshot else str(path)

    def close(self) -> None:
        """Release the versions that are held."""
        with self._lock:
            _release(self._snapshots)

    def _open(
        self, path: str, mode: str = "rb", block_size: int | None = None, cache_options: Any = None, **options: Any
    ) -> BinaryIO:
        if mode != "rb":
            raise _read_only(path)
        snapshot, _, name = self._find(path)
        if snapshot is None or name not in snapshot.files:
            if self.exists(path):
                raise IsADirectoryError(EISDIR, "is a folder", path)
            raise _missing(path)
        if isinstance(snapshot.backend, LocalBackend):
            with suppress(FileNotFoundError):
                return (snapshot.backend.root / snapshot.location / name).open("rb")
            snapshot = self.look_again(snapshot)
        file = DatasetFile(self, path, snapshot, name, block_size or _BLOCK_BYTES, cache_options)
        return cast(BinaryIO, file)

    def look_again(self, snapshot: _Snapshot) -> _Snapshot:
        """Return where the same version is now, after its files were lost while it was held."""
        with self._lock:
            renewed = self._hold(self._platform(), snapshot.dataset.ref)
            for key, other in list(self._snapshots.items()):
                if other is snapshot:
                    self._snapshots[key] = renewed
            with suppress(PersistenceError):
                snapshot.hold.close()
            return renewed

    # ---- paths

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        return os.fspath(path).removeprefix("springline://").strip("/")

    def _find(self, path: str) -> tuple[_Snapshot | None, str, str]:
        """Return the version that a path leads into, the part of the path that names it, and the rest.

        None if it leads to no dataset: it may be a folder of some. Of nested datasets it is the innermost.
        """
        parts = self._strip_protocol(path).split("/")
        for number, part in enumerate(parts, start=1):
            if match := _VERSION.fullmatch(part):
                dataset_path = "/".join([*parts[: number - 1], match["name"]])
                snapshot = self._snapshot(dataset_path, int(match["generation"]))
                if snapshot is None:
                    raise _missing(path)
                return snapshot, "/".join(parts[:number]), "/".join(parts[number:])
        for number in range(len(parts), 0, -1):
            prefix = "/".join(parts[:number])
            if prefix and (snapshot := self._snapshot(prefix, None)):
                return snapshot, prefix, "/".join(parts[number:])
        return None, "", ""

    def _snapshot(self, path: str, generation: int | None) -> _Snapshot | None:
        """Return a version of a dataset as it is held, or None if there is none."""
        with self._lock:
            snapshot = self._snapshots.get((path, generation))
            if snapshot is not None and snapshot.expires_at > time.monotonic():
                return snapshot
            platform = self._platform()
            try:
                ref = platform.catalog.resolve(path).ref if generation is None else Ref(path, generation)
                snapshot = self._hold(platform, ref)
            except (UnknownDatasetError, InvalidPathError):
                return None
            _release(self._snapshots, lambda snapshot: snapshot.expires_at <= time.monotonic())
            self._snapshots[path, generation] = snapshot
            return snapshot

    def _hold(self, platform: Platform, ref: Ref) -> _Snapshot:
        expires_at = time.monotonic() + 0.9 * self._hold_seconds  # before the catalog forgets it
        with ExitStack() as stack:
            dataset = stack.enter_context(platform.catalog.hold_for_reading(ref, self._hold_seconds))
            if dataset.phase is not Phase.COMMITTED:
                raise UnknownDatasetError(f"{ref} is {dataset.phase}")
            dataset = platform.restorer.verifier.verify(dataset)
            if not dataset.available:
                platform.restorer.restore([ref]).require_all()
                dataset = platform.catalog.get(ref)
            backend: Backend = platform.cache if dataset.in_cache else platform.under
            location = dataset.cache_location if dataset.in_cache else dataset.under_location
            if dataset.in_cache or parse_location(location) is None:
                files: Sequence[File] = backend.files(location)
            else:
                files = read_copy(platform.under, location)[1].files
            names = {file.name: file for file in files}
            return _Snapshot(dataset, backend, location, names, expires_at, stack.pop_all())

    def _parts_below(self, path: str) -> list[str]:
        """Return the next parts of the paths of datasets below a folder."""
        prefix = f"{path}/" if path else ""
        paths = self._platform().catalog.committed_paths(prefix)
        return sorted({each.removeprefix(prefix).partition("/")[0] for each in paths})

    def _entries(self, snapshot: _Snapshot, prefix: str, folder: str) -> Iterator[dict[str, Any]]:
        above = f"{folder}/" if folder else ""
        folders = set()
        for name in snapshot.files:
            if not name.startswith(above):
                continue
            first, _, rest = name.removeprefix(above).partition("/")
            if not rest:
                yield self._file_info(snapshot, prefix, name)
            elif first not in folders:
                folders.add(first)
                yield self._folder_info(f"{prefix}/{above}{first}")

    def _file_info(self, snapshot: _Snapshot, prefix: str, name: str) -> dict[str, Any]:
        file = snapshot.files[name]
        return {
            "name": f"{prefix}/{name}", "size": file.bytes, "type": "file", "version": snapshot.dataset.ref.generation,
            "checksum": file.checksum, "created": _moment(snapshot),
        }  # fmt: skip

    @staticmethod
    def _folder_info(path: str) -> dict[str, Any]:
        return {"name": path, "size": 0, "type": "directory"}

    def _platform(self) -> Platform:
        with self._lock:
            process = os.getpid()
            if process not in self._platforms:
                self._snapshots.clear()  # of the process that this one was forked from
                actor = f"springline:// of {os.environ.get('USER') or os.getuid()}"
                self._platforms[process] = open_platform(Settings(**self._settings), actor=actor)
            return self._platforms[process]

    # ---- writing, which is refused

    def _refuse(self, path: Any = "", *_: Any, **__: Any) -> NoReturn:
        raise _read_only(path)

    mkdir = makedirs = rmdir = rm = rm_file = _rm = cp_file = mv = touch = pipe_file = put_file = _refuse


class DatasetFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file of a dataset in a store that is no folder of this machine, read in blocks."""

    def __init__(
        self,
        filesystem: DatasetFileSystem,
        path: str,
        snapshot: _Snapshot,
        name: str,
        block_bytes: int,
        cache_options: Any,
    ) -> None:
        self._snapshot = snapshot
        self._name_in_copy = name
        cache_type = "readahead" if snapshot.backend.can_seek else "all"
        super().__init__(
            filesystem, path, "rb", block_bytes, cache_type=cache_type, cache_options=cache_options,
            size=snapshot.files[name].bytes,
        )  # fmt: skip

    def _fetch_range(self, start: int, end: int) -> bytes:
        try:
            return self._read(start, end)
        except FileNotFoundError:
            self._snapshot = self.fs.look_again(self._snapshot)
            return self._read(start, end)

    def _read(self, start: int, end: int) -> bytes:
        snapshot = self._snapshot
        return snapshot.backend.read_range(snapshot.location, self._name_in_copy, start, end - start)


_FSSPEC_OPTIONS = (
    "use_listings_cache", "listings_expiry_time", "max_paths", "skip_instance_cache", "asynchronous", "loop",
)  # fmt: skip


def _release(
    snapshots: dict[tuple[str, int | None], _Snapshot], which: Callable[[_Snapshot], bool] = lambda snapshot: True
) -> None:
    """End the reading of versions; one that cannot be ended now ends by its lease."""
    for key in [key for key, snapshot in snapshots.items() if which(snapshot)]:
        with suppress(PersistenceError):
            snapshots.pop(key).hold.close()


def _moment(snapshot: _Snapshot) -> datetime:
    return datetime.fromtimestamp(snapshot.dataset.committed_at or snapshot.dataset.created_at, UTC)


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(ENOENT, "no such dataset, version or file", f"springline://{path}")


def _read_only(path: Any) -> OSError:
    return OSError(EROFS, "datasets are read-only here; an operation writes them", f"springline://{path}")
