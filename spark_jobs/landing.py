"""Landing files: input from outside, one folder per day, each file with a manifest beside it.

The folder is one of this machine, or one that fsspec opens, such as a prefix of a bucket.

    landing/2013-01-05/flights.csv   flights.csv.manifest.json   weather.csv   weather.csv.manifest.json

A manifest states the number of lines and bytes of its file, and the checksum of the bytes (xxh3, 128 bits): without
it, a file truncated at the end of a line would look complete. An operation gets a landing file from `Landing.file`,
which compares the two; to skip the check it calls `Landing.unchecked_file` explicitly.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

import fsspec
import xxhash
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from springline.persistence.errors import describe_error
from springline.persistence.settings import Settings
from springline.persistence.text.redaction import redact_secrets
from springline.spark_jobs.errors import JobUsageError, LandingError
from springline.spark_jobs.nycflights import open_text
from springline.spark_jobs.settings import JobSettings

_CHUNK = 1 << 20
_END = "\0end of the file"
YEAR = 2013  # year of all flights


@dataclass(frozen=True)
class LandingFeed:
    """One kind of landing file and its columns; `number_column` is the column that distinguishes copies of a row."""

    file: str
    columns: tuple[str, ...]
    number_column: str


FLIGHTS = LandingFeed(
    "flights.csv",
    (
        *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time"),
        *("arr_delay", "carrier", "flight", "tailnum", "origin", "dest", "air_time", "distance", "hour", "minute"),
        "time_hour",
    ),
    number_column="flight",
)
WEATHER = LandingFeed(
    "weather.csv",
    (
        *("origin", "year", "month", "day", "hour", "temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust"),
        *("precip", "pressure", "visib", "time_hour"),
    ),
    number_column="",
)
FEEDS = (FLIGHTS, WEATHER)


@dataclass(frozen=True)
class LandingManifest:
    """Size and checksum of a landing file; the header counts as a line, and so does a last line without line end."""

    lines: int
    size: int
    xxh3_128: str

    def __str__(self) -> str:
        return f"{self.lines:,} lines, {self.size:,} bytes, checksum {self.xxh3_128}"


@dataclass(frozen=True)
class LandedFile:
    """A landing file that was written (`is_new`), or existed already with the same content; `path` may be a URI."""

    path: str
    manifest: LandingManifest
    is_new: bool

    @property
    def rows(self) -> int:
        """Number of rows, without the header."""
        return max(self.manifest.lines - 1, 0)


@dataclass(frozen=True)
class Landing:
    """The folder of landing files, as operations see it: a file that does not match its manifest is rejected.

    Args:
        address: an absolute path, or a URI that fsspec opens.
        options: for the file system of the URI; those of S3 are the under-store's.
        ca_bundle: file of certificates for https.
    """

    address: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_bundle: str = ""

    @property
    def hadoop_conf(self) -> dict[str, str]:
        """Settings of Hadoop's client with which Spark reaches the files."""
        parts = urlsplit(self.address)
        if parts.scheme != "s3":
            return {}
        from springline.persistence.backends.s3 import conf_of_bucket, hadoop_conf

        return conf_of_bucket(hadoop_conf(self.options, os.environ), parts.netloc)

    def file(self, *parts: str, columns: Sequence[str] = ()) -> str:
        """Return the landing file at the path `parts` below the folder, after checking it against its manifest.

        It is an absolute path or a URI, for `spark_path`. With `columns`, it must be a CSV whose header names them, in
        this order. Raises `LandingError`, naming the file, if it is missing, has no manifest, is truncated or altered,
        or has other columns.
        """
        file = self._existing_file(parts)
        with _reading(file):
            if columns:
                _check_columns(file, columns)
            manifest = _read_manifest(file)
            if manifest is None:
                raise LandingError(
                    f"{file}: no manifest {file.manifest.name}, which is needed to detect a truncated file; "
                    f"the sender creates it with `springline landing manifest {file}`. "
                    "Use context.landing.unchecked_file(…) to load a file without a manifest"
                )
            actual, fault = _examine(file, columns)
        if actual != manifest:
            problem = "truncated" if actual.size < manifest.size else "altered"
            raise LandingError(
                f"{file}: {problem} file: {actual}, but its manifest says {manifest}; request it again from the sender"
            )
        if fault is not None:
            raise fault
        return str(file)

    def unchecked_file(self, *parts: str) -> str:
        """Return the landing file at the path `parts` without checking its content, only that it exists in the folder.

        A symbolic link that leads out of the folder is rejected, for the file and for its manifest: otherwise anyone
        who may write there could read other files. Raises `LandingError`.
        """
        return str(self._existing_file(parts))

    def open_file(self, *parts: str) -> LandingFile:
        """Return a file of the folder, which need not exist; raises `LandingError` if it would be outside of it."""
        filesystem, root = _open_folder(self.address, self.options, self.ca_bundle)
        below = "/".join(parts)
        file = LandingFile(filesystem, root, below, self.address)
        is_named_below = not below.startswith("/") and ".." not in PurePosixPath(below).parts
        if not is_named_below or not file.is_inside or not file.manifest.is_inside:
            raise LandingError(f"{file}: outside of the landing folder {self.address}; put the file itself into it")
        return file

    def _existing_file(self, parts: Sequence[str]) -> LandingFile:
        file = self.open_file(*parts)
        with _reading(file):
            exists = file.exists()
        if not exists:
            raise LandingError(
                f"{file}: no such landing file; for a day of {YEAR}, run `springline landing generate --days "
                f"{PurePosixPath(str(file)).parent.name}`"
            )
        return file


def landing_of(jobs: JobSettings, platform: Settings) -> Landing:
    """Return the landing files that the settings name; without options they have the under-store's, if it is alike."""
    options = platform.options_beside_under(jobs.landing_address, jobs.landing_options)
    return Landing(jobs.landing_address, options, platform.ca_bundle)


@dataclass(frozen=True)
class LandingFile:
    """One file of a landing folder, by its path below it; its text is its path or URI, for people and for Spark."""

    filesystem: AbstractFileSystem
    root: str
    below: str
    address: str

    def __str__(self) -> str:
        return f"{self.address.rstrip('/')}/{self.below}" if self.address else self.below

    @staticmethod
    def at(place: str, options: Mapping[str, str] = {}, ca_bundle: str = "") -> LandingFile:
        """Return the file at a path or a URI, on its own."""
        address, separator, name = place.rpartition("/")
        address = address or separator
        return LandingFile(*_open_folder(address, options, ca_bundle), name, address)

    @property
    def name(self) -> str:
        """Its name, without folders."""
        return PurePosixPath(self.below).name

    @property
    def manifest(self) -> LandingFile:
        """The file of its manifest."""
        return replace(self, below=f"{self.below}.manifest.json")

    @property
    def is_inside(self) -> bool:
        """Whether its path leads to a file of the folder; links only a folder of this machine has."""
        return not self._is_local or Path(self._path).resolve().is_relative_to(Path(self.root).resolve())

    def exists(self) -> bool:
        """Whether it is there, and a file."""
        return bool(self.filesystem.isfile(self._path))

    def open(self) -> BinaryIO:
        """Open it for reading."""
        return cast(BinaryIO, self.filesystem.open(self._path, "rb"))

    def read(self) -> bytes:
        """Return its bytes."""
        return bytes(self.filesystem.cat_file(self._path))

    def write(self, content: bytes) -> None:
        """Write it so that a reader finds all of it or nothing; missing folders are created."""
        if not self._is_local:
            self.filesystem.pipe_file(self._path, content)
            return
        path = Path(self._path)
        # An existing folder keeps its permissions: others may write.
        Path(self.root).mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with unfinished.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)

    @property
    def _path(self) -> str:
        return f"{self.root.rstrip('/')}/{self.below}"

    @property
    def _is_local(self) -> bool:
        return isinstance(self.filesystem, LocalFileSystem)


def land(days: Collection[date], landing: Landing, *, copies: int = 1) -> tuple[LandedFile, ...]:
    """Write the landing files of `days`; a day without flights gets files with a header only.

    Each file is written atomically. `copies` > 1 makes larger files of the same kind: the flights of each further copy
    have different numbers. Raises `LandingError`.
    """
    landed_files = []
    for feed in FEEDS:
        lines = {day: list[str]() for day in days}
        with open_text(feed.file) as source:
            header = next(source)
            for line in source:
                if (day := _day_of(line, feed)) in lines:
                    lines[day].append(line)
        for day in sorted(lines):
            copy_numbers = range(copies if feed.number_column else 1)
            body = "".join(_copy_line(line, feed, copy) for copy in copy_numbers for line in lines[day])
            file = landing.open_file(day.isoformat(), feed.file)
            with _reading(file):
                landed_files.append(_write_landing_file(file, (header + body).encode()))
    return tuple(landed_files)


def write_manifest(file: LandingFile) -> LandingManifest:
    """Write the manifest beside a complete landing file, for the sender, before it is sent; raises `LandingError`."""
    with _reading(file):
        if not file.exists():
            raise LandingError(f"{file}: no such file")
        manifest, _ = _examine(file)
        file.manifest.write((json.dumps(asdict(manifest)) + "\n").encode())
    return manifest


def parse_days(text: str) -> tuple[date, ...]:
    """Parse `2013-01-05`, `2013-01-05..2013-01-07`, or several of them separated by commas; raises `JobUsageError`."""
    days: dict[date, None] = {}
    for part in text.split(","):
        first, dots, last = part.strip().partition("..")
        start = _parse_day(first)
        stop = _parse_day(last) if dots else start
        if stop < start:
            raise JobUsageError(f"{part!r}: the last day is before the first")
        days |= {date.fromordinal(day): None for day in range(start.toordinal(), stop.toordinal() + 1)}
    return tuple(days)


def _parse_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise JobUsageError(f"{text!r} is not a date: write it as 2013-01-05") from None


def _day_of(line: str, feed: LandingFeed) -> date:
    fields = line.split(",", 4)
    first = feed.columns.index("year")
    year, month, day = (int(field) for field in fields[first : first + 3])
    return date(year, month, day)


def _copy_line(line: str, feed: LandingFeed, copy: int) -> str:
    if not copy:
        return line
    fields = line.split(",")
    index = feed.columns.index(feed.number_column)
    fields[index] = str(int(fields[index]) + copy * 10_000)
    return ",".join(fields)


def _open_folder(address: str, options: Mapping[str, str], ca_bundle: str) -> tuple[AbstractFileSystem, str]:
    """Return the file system of a folder and its path there; raises `LandingError`."""
    if "://" not in address:
        return LocalFileSystem(), str(Path(address).absolute())
    scheme, _, path = address.partition("://")
    try:
        if scheme == "s3":
            from springline.persistence.backends.s3 import open_filesystem

            return open_filesystem(options, ca_bundle), path
        filesystem, root = fsspec.url_to_fs(address, use_listings_cache=False, **options)
    except Exception as error:  # whatever its package raises: it is not installed, or refuses the options
        raise LandingError(f"{address}: it cannot be opened: {redact_secrets(describe_error(error))}") from error
    return filesystem, str(root)


@contextmanager
def _reading(file: LandingFile) -> Iterator[None]:
    """Report whatever a file system raises inside the block as an error of this landing file."""
    try:
        yield
    except LandingError:
        raise
    except FileNotFoundError as error:
        raise LandingError(f"{file}: it is gone, or its folder; request it again from the sender") from error
    except Exception as error:
        reason = redact_secrets(describe_error(error))
        raise LandingError(f"{file}: it cannot be read or written now: {reason}") from error


def _write_landing_file(file: LandingFile, content: bytes) -> LandedFile:
    if file.exists() and file.read() == content and _read_manifest(file) == (current_manifest := _examine(file)[0]):
        return LandedFile(str(file), current_manifest, is_new=False)
    file.write(content)
    return LandedFile(str(file), write_manifest(file), is_new=True)


def _read_manifest(file: LandingFile) -> LandingManifest | None:
    if not file.manifest.exists():
        return None
    try:
        content: Mapping[str, object] = json.loads(file.manifest.read())
        return LandingManifest(int(str(content["lines"])), int(str(content["size"])), str(content["xxh3_128"]))
    except (ValueError, KeyError, TypeError) as error:
        raise LandingError(
            f"{file.manifest}: not a manifest ({error!r}); if the file is complete, run "
            f"`springline landing manifest {file}`"
        ) from error


def _check_columns(file: LandingFile, columns: Sequence[str]) -> None:
    with file.open() as stream:
        actual = next(_records(file, stream))
    actual = [] if actual == [_END] else actual
    if actual == list(columns):
        return
    missing = [column for column in columns if column not in actual]
    unexpected = [column for column in actual if column not in columns]
    problems = [f"missing: {', '.join(missing)}"] if missing else []
    problems += [f"unexpected: {', '.join(unexpected)}"] if unexpected else []
    raise LandingError(
        f"{file}: wrong columns ({'; '.join(problems) or 'different order'}); expected {', '.join(columns)}"
    )


def _records(file: LandingFile, stream: BinaryIO) -> Iterator[list[str]]:
    """Yield the records of a CSV file without empty lines, then `_END`; a record may have several lines.

    Raises `LandingError` if the file is not UTF-8 or a field is too large, as after a quote that nobody closes.
    """
    lines = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    reader = csv.reader(chain(lines, [_END]))
    try:
        yield from filter(None, reader)
    except UnicodeDecodeError as error:
        raise LandingError(f"{file}: not UTF-8 after line {reader.line_num:,} ({error.reason})") from error
    except csv.Error as error:
        raise LandingError(
            f"{file}: not valid CSV up to line {reader.line_num:,}: {error}; request it again from the sender, or "
            "leave out `columns` if this is not CSV as in RFC 4180"
        ) from error


def _examine(file: LandingFile, columns: Sequence[str] = ()) -> tuple[LandingManifest, LandingError | None]:
    """Return the manifest of a file, and with `columns` what is wrong with its text; its bytes are read once."""
    fault = None
    with file.open() as stream:
        counting = _CountingStream(stream)
        if columns:
            try:
                _check_text(file, cast(BinaryIO, io.BufferedReader(counting, _CHUNK)), columns)
            except LandingError as error:
                fault = error
        while counting.readinto(bytearray(_CHUNK)):
            pass
    return counting.manifest, fault


class _CountingStream(io.RawIOBase):
    """Passes the bytes of a file on, and computes its manifest on the way."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._hasher, self._lines, self._size, self._last = xxhash.xxh3_128(), 0, 0, b"\n"

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._stream.read(len(buffer))
        buffer[: len(chunk)] = chunk
        self._hasher.update(chunk)
        self._lines += chunk.count(b"\n")
        self._size += len(chunk)
        self._last = chunk[-1:] or self._last
        return len(chunk)

    @property
    def manifest(self) -> LandingManifest:
        """The manifest of what was read so far."""
        return LandingManifest(self._lines + (self._last != b"\n"), self._size, self._hasher.hexdigest())


def _check_text(file: LandingFile, stream: BinaryIO, columns: Sequence[str]) -> None:
    """Check what the manifest of a bad file would not show: that it is UTF-8, and that its last record is complete."""
    *last, end = deque(_records(file, stream), maxlen=2)
    if end != [_END] or len(last[0]) != len(columns):  # within quotes, the end is a part of the last record
        record = ",".join(*last if end == [_END] else [end]).removesuffix(_END)
        raise LandingError(
            f"{file}: truncated file: its last record {record[:60]!r} is incomplete: {len(columns)} fields are needed, "
            "and the end of each quote; request it again from the sender"
        )
