"""Landing files: what arrives from outside, a folder a day, each file with a manifest beside it.

    landing/2013-01-05/flights.csv   flights.csv.manifest.json   weather.csv   weather.csv.manifest.json

A manifest says how many lines and bytes its file has, and the bytes' checksum (xxh3, 128 bits): a file cut short
at the end of a line looks whole without it. So an operation gets a landing file from `Landing.file`, which compares
the two, and has to say so where it takes one unseen: `Landing.unchecked`.
"""

from __future__ import annotations

import csv
import json
import os
from codecs import getincrementaldecoder
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

import xxhash

from springline.spark_jobs.errors import LandingError
from springline.spark_jobs.nycflights import opened

_CHUNK = 1 << 20
YEAR = 2013  # of all flights


@dataclass(frozen=True)
class Feed:
    """One kind of landing file and its columns; `number` is the column that tells copies of a row apart."""

    file: str
    columns: tuple[str, ...]
    number: str


FLIGHTS = Feed(
    "flights.csv",
    (
        *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time"),
        *("arr_delay", "carrier", "flight", "tailnum", "origin", "dest", "air_time", "distance", "hour", "minute"),
        "time_hour",
    ),
    number="flight",
)
WEATHER = Feed(
    "weather.csv",
    (
        *("origin", "year", "month", "day", "hour", "temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust"),
        *("precip", "pressure", "visib", "time_hour"),
    ),
    number="",
)
FEEDS = (FLIGHTS, WEATHER)


@dataclass(frozen=True)
class Manifest:
    """What a landing file holds; a header is a line, too, and so is a last one without an end."""

    lines: int
    size: int
    xxh3_128: str

    def __str__(self) -> str:
        return f"{self.lines:,} lines, {self.size:,} bytes, checksum {self.xxh3_128}"


@dataclass(frozen=True)
class Landed:
    """A landing file that was written, or was there already with the same content; its rows are without the header."""

    path: Path
    manifest: Manifest
    fresh: bool

    @property
    def rows(self) -> int:
        """How many rows are below the header."""
        return max(self.manifest.lines - 1, 0)


@dataclass(frozen=True)
class Landing:
    """The folder of landing files, as operations see it: a file is what was sent, or it is refused."""

    folder: Path

    def file(self, *parts: str, columns: Sequence[str] = ()) -> Path:
        """The landing file at these `parts` of a path below the folder, once it is what its manifest says.

        With `columns` it is a CSV with a header that names them, in this order. Raises `LandingError`, naming the file,
        for one that is missing, has no manifest, is cut short or altered, or has other columns.
        """
        path = self.unchecked(*parts)
        if columns:
            _check_columns(path, columns)
        manifest = _read_manifest(path)
        if manifest is None:
            raise LandingError(
                f"{path}: it has no manifest, {_manifest_path(path).name}, which tells a whole file from a cut one; "
                f"whoever sends the file writes it: `springline landing manifest {path}`. "
                "An operation that is to take files without one says context.landing.unchecked(…)"
            )
        met = _manifest_of(path)
        if met != manifest:
            what = "is cut short" if met.size < manifest.size else "is not what was sent"
            raise LandingError(f"{path}: {what}: it has {met}; its manifest says {manifest}; have it sent again")
        if columns:
            _check_text(path, columns)
        return path

    def unchecked(self, *parts: str) -> Path:
        """The landing file at these `parts`, cut or not: only that it is there, below the folder, is looked at.

        One that is a link which leads out of the folder is refused: whoever may put files there would be told of
        others. So is one whose manifest is such a link.
        """
        path = self.folder.joinpath(*parts)
        for each in (path, _manifest_path(path)):
            if ".." in each.parts or not each.resolve().is_relative_to(self.folder.resolve()):
                raise LandingError(f"{each}: it leads out of the landing folder {self.folder}; land the file itself")
        if not path.is_file():
            raise LandingError(
                f"{path}: no such landing file; of a day of {YEAR}, `springline landing generate --days "
                f"{path.parent.name}` makes the flights"
            )
        return path


def land(days: Collection[date], folder: Path, *, copies: int = 1) -> tuple[Landed, ...]:
    """Write the landing files of `days` under `folder`; a day without flights gets files with a header only.

    Each file appears in one step. More than one of `copies` makes larger files of the same kind: the flights of
    every further copy have numbers of their own.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # one that is there keeps its rights: others may land files
    landed = []
    for feed in FEEDS:
        lines = {day: list[str]() for day in days}
        with opened(feed.file) as source:
            header = next(source)
            for line in source:
                if (day := _day_of(line, feed)) in lines:
                    lines[day].append(line)
        for day in sorted(lines):
            again = range(copies if feed.number else 1)
            body = "".join(_copied(line, feed, copy) for copy in again for line in lines[day])
            landed.append(_write(folder / day.isoformat() / feed.file, (header + body).encode()))
    return tuple(landed)


def write_manifest(path: Path) -> Manifest:
    """Write the manifest beside a landing file that is whole: for whoever sends it, before it is sent."""
    if not path.is_file():
        raise LandingError(f"{path}: there is no such file to write a manifest of")
    manifest = _manifest_of(path)
    _replace(_manifest_path(path), (json.dumps(asdict(manifest)) + "\n").encode())
    return manifest


def parse_days(text: str) -> tuple[date, ...]:
    """Read `2013-01-05`, `2013-01-05..2013-01-07`, or several of them separated by commas."""
    days: dict[date, None] = {}
    for part in text.split(","):
        first, dots, last = part.strip().partition("..")
        start = _day(first)
        stop = _day(last) if dots else start
        if stop < start:
            raise ValueError(f"{part!r}: the last day lies before the first")
        days |= {date.fromordinal(day): None for day in range(start.toordinal(), stop.toordinal() + 1)}
    return tuple(days)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no day: write it as 2013-01-05") from None


def _day_of(line: str, feed: Feed) -> date:
    fields = line.split(",", 4)
    first = feed.columns.index("year")
    year, month, day = (int(field) for field in fields[first : first + 3])
    return date(year, month, day)


def _copied(line: str, feed: Feed, copy: int) -> str:
    if not copy:
        return line
    fields = line.split(",")
    place = feed.columns.index(feed.number)
    fields[place] = str(int(fields[place]) + copy * 10_000)
    return ",".join(fields)


def _write(path: Path, content: bytes) -> Landed:
    if path.is_file() and path.read_bytes() == content and _read_manifest(path) == (known := _manifest_of(path)):
        return Landed(path, known, fresh=False)
    path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # one that is there keeps its rights
    path.parent.mkdir(exist_ok=True)
    _replace(path, content)
    return Landed(path, write_manifest(path), fresh=True)


def _replace(path: Path, content: bytes) -> None:
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


def _read_manifest(path: Path) -> Manifest | None:
    beside = _manifest_path(path)
    if not beside.is_file():
        return None
    try:
        content: Mapping[str, object] = json.loads(beside.read_bytes())
        return Manifest(int(str(content["lines"])), int(str(content["size"])), str(content["xxh3_128"]))
    except (ValueError, KeyError, TypeError) as error:
        raise LandingError(
            f"{beside}: not a manifest ({error!r}); if the file is whole, "
            f"`springline landing manifest {path}` writes one"
        ) from error


def _check_columns(path: Path, columns: Sequence[str]) -> None:
    with path.open("rb") as file:
        first = file.readline()
    try:
        found = _fields(path, first.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise LandingError(f"{path}: its header is not UTF-8 ({error})") from error
    if found == list(columns):
        return
    missing = [column for column in columns if column not in found]
    strange = [column for column in found if column not in columns]
    said = [f"missing: {', '.join(missing)}"] if missing else []
    said += [f"not expected: {', '.join(strange)}"] if strange else []
    raise LandingError(f"{path}: wrong columns ({'; '.join(said) or 'another order'}); expected {', '.join(columns)}")


def _fields(path: Path, line: str) -> list[str]:
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error as error:
        raise LandingError(f"{path}: the line {line.strip()[:60]!r} is no CSV: {error}") from error


def _manifest_of(path: Path) -> Manifest:
    """What the file holds, by one pass over its bytes."""
    hashed, lines, size, last = xxhash.xxh3_128(), 0, 0, b"\n"
    for chunk in _chunks(path):
        hashed.update(chunk)
        lines += chunk.count(b"\n")
        size += len(chunk)
        last = chunk[-1:]
    return Manifest(lines + (last != b"\n"), size, hashed.hexdigest())


def _check_text(path: Path, columns: Sequence[str]) -> None:
    """What a manifest cannot tell that was written of a bad file: it is UTF-8, and its last line is whole."""
    decoder, size, end = getincrementaldecoder("utf-8")(), 0, b""
    for chunk in _chunks(path):
        try:
            decoder.decode(chunk)
        except UnicodeDecodeError as error:
            raise LandingError(f"{path}: not UTF-8 near byte {size + error.start:,}") from error
        size += len(chunk)
        end = (end + chunk)[-_CHUNK:]
        end = end[end.rfind(b"\n", 0, -1) + 1 :]
    last = end.decode(errors="replace")
    if not end.endswith(b"\n") or len(_fields(path, last)) != len(columns):
        raise LandingError(
            f"{path}: is cut short: its last line {last.strip()[:60]!r} is not whole; have it sent again"
        )


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk
