"""Landing files: input from outside, one folder per day, each file with a manifest beside it.

    landing/2013-01-05/flights.csv   flights.csv.manifest.json   weather.csv   weather.csv.manifest.json

A manifest states the number of lines and bytes of its file, and the checksum of the bytes (xxh3, 128 bits): without
it, a file truncated at the end of a line would look complete. An operation gets a landing file from `Landing.file`,
which compares the two; to skip the check it calls `Landing.unchecked_file` explicitly.
"""

from __future__ import annotations

import csv
import json
import os
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from itertools import chain
from pathlib import Path

import xxhash

from springline.spark_jobs.errors import JobUsageError, LandingError
from springline.spark_jobs.nycflights import open_text

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
    """A landing file that was written (`is_new`), or existed already with the same content."""

    path: Path
    manifest: LandingManifest
    is_new: bool

    @property
    def rows(self) -> int:
        """Number of rows, without the header."""
        return max(self.manifest.lines - 1, 0)


@dataclass(frozen=True)
class Landing:
    """The folder of landing files, as operations see it: a file that does not match its manifest is rejected."""

    folder: Path

    def file(self, *parts: str, columns: Sequence[str] = ()) -> Path:
        """Return the landing file at the path `parts` below the folder, after checking it against its manifest.

        With `columns`, it must be a CSV whose header names them, in this order. Raises `LandingError`, naming the file,
        if it is missing, has no manifest, is truncated or altered, or has other columns.
        """
        path = self.unchecked_file(*parts)
        if columns:
            _check_columns(path, columns)
        manifest = _read_manifest(path)
        if manifest is None:
            raise LandingError(
                f"{path}: no manifest {_manifest_path(path).name}, which is needed to detect a truncated file; "
                f"the sender creates it with `springline landing manifest {path}`. "
                "Use context.landing.unchecked_file(…) to load a file without a manifest"
            )
        actual = _manifest_of(path)
        if actual != manifest:
            problem = "truncated" if actual.size < manifest.size else "altered"
            raise LandingError(
                f"{path}: {problem} file: {actual}, but its manifest says {manifest}; request it again from the sender"
            )
        if columns:
            _check_text(path, columns)
        return path

    def unchecked_file(self, *parts: str) -> Path:
        """Return the landing file at the path `parts` without checking its content, only that it exists in the folder.

        A symbolic link that leads out of the folder is rejected, for the file and for its manifest: otherwise anyone
        who may write there could read other files. Raises `LandingError`.
        """
        path = self.folder.joinpath(*parts)
        for each in (path, _manifest_path(path)):
            if ".." in each.parts or not each.resolve().is_relative_to(self.folder.resolve()):
                raise LandingError(f"{each}: outside of the landing folder {self.folder}; put the file itself into it")
        if not path.is_file():
            raise LandingError(
                f"{path}: no such landing file; for a day of {YEAR}, run `springline landing generate --days "
                f"{path.parent.name}`"
            )
        return path


def land(days: Collection[date], folder: Path, *, copies: int = 1) -> tuple[LandedFile, ...]:
    """Write the landing files of `days` under `folder`; a day without flights gets files with a header only.

    Each file is written atomically. `copies` > 1 makes larger files of the same kind: the flights of each further copy
    have different numbers.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # an existing folder keeps its permissions: others may write
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
            landed_files.append(_write_landing_file(folder / day.isoformat() / feed.file, (header + body).encode()))
    return tuple(landed_files)


def write_manifest(path: Path) -> LandingManifest:
    """Write the manifest beside a complete landing file, for the sender, before it is sent; raises `LandingError`."""
    if not path.is_file():
        raise LandingError(f"{path}: no such file")
    manifest = _manifest_of(path)
    _write_atomically(_manifest_path(path), (json.dumps(asdict(manifest)) + "\n").encode())
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


def _write_landing_file(path: Path, content: bytes) -> LandedFile:
    if (
        path.is_file()
        and path.read_bytes() == content
        and _read_manifest(path) == (current_manifest := _manifest_of(path))
    ):
        return LandedFile(path, current_manifest, is_new=False)
    path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # an existing folder keeps its permissions
    path.parent.mkdir(exist_ok=True)
    _write_atomically(path, content)
    return LandedFile(path, write_manifest(path), is_new=True)


def _write_atomically(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _manifest_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.manifest.json")


def _read_manifest(path: Path) -> LandingManifest | None:
    manifest_path = _manifest_path(path)
    if not manifest_path.is_file():
        return None
    try:
        content: Mapping[str, object] = json.loads(manifest_path.read_bytes())
        return LandingManifest(int(str(content["lines"])), int(str(content["size"])), str(content["xxh3_128"]))
    except (ValueError, KeyError, TypeError) as error:
        raise LandingError(
            f"{manifest_path}: not a manifest ({error!r}); if the file is complete, run "
            f"`springline landing manifest {path}`"
        ) from error


def _check_columns(path: Path, columns: Sequence[str]) -> None:
    actual = next(_records(path))
    actual = [] if actual == [_END] else actual
    if actual == list(columns):
        return
    missing = [column for column in columns if column not in actual]
    unexpected = [column for column in actual if column not in columns]
    problems = [f"missing: {', '.join(missing)}"] if missing else []
    problems += [f"unexpected: {', '.join(unexpected)}"] if unexpected else []
    raise LandingError(
        f"{path}: wrong columns ({'; '.join(problems) or 'different order'}); expected {', '.join(columns)}"
    )


def _records(path: Path) -> Iterator[list[str]]:
    """Yield the records of a CSV file without empty lines, then `_END`; a record may have several lines.

    Raises `LandingError` if the file is not UTF-8 or a field is too large, as after a quote that nobody closes.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(chain(file, [_END]))
        try:
            yield from filter(None, reader)
        except UnicodeDecodeError as error:
            raise LandingError(f"{path}: not UTF-8 after line {reader.line_num:,} ({error.reason})") from error
        except csv.Error as error:
            raise LandingError(
                f"{path}: not valid CSV up to line {reader.line_num:,}: {error}; request it again from the sender, or "
                "leave out `columns` if this is not CSV as in RFC 4180"
            ) from error


def _manifest_of(path: Path) -> LandingManifest:
    """Compute the manifest of a file in one pass over its bytes."""
    hasher, lines, size, last = xxhash.xxh3_128(), 0, 0, b"\n"
    for chunk in _chunks(path):
        hasher.update(chunk)
        lines += chunk.count(b"\n")
        size += len(chunk)
        last = chunk[-1:]
    return LandingManifest(lines + (last != b"\n"), size, hasher.hexdigest())


def _check_text(path: Path, columns: Sequence[str]) -> None:
    """Check what the manifest of a bad file would not show: that it is UTF-8, and that its last record is complete."""
    *last, end = deque(_records(path), maxlen=2)
    if end != [_END] or len(last[0]) != len(columns):  # within quotes, the end is a part of the last record
        record = ",".join(*last if end == [_END] else [end]).removesuffix(_END)
        raise LandingError(
            f"{path}: truncated file: its last record {record[:60]!r} is incomplete: {len(columns)} fields are needed, "
            "and the end of each quote; request it again from the sender"
        )


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk
