"""Landing files: what arrives from outside, a folder a day, each file with a manifest beside it.

    landing/2013-01-05/flights.csv   flights.csv.manifest.json   weather.csv   weather.csv.manifest.json

A manifest says how many rows and bytes its file has, and the bytes' checksum (xxh3, 128 bits): a file cut short
at the end of a line looks whole without it. A file that somebody put there without a manifest is taken if its
last line is whole.
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

from spark_jobs.errors import BadLanding
from spark_jobs.reference import opened

_CHUNK = 1 << 20


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
    """What a landing file holds."""

    rows: int
    size: int
    xxh3_128: str

    @staticmethod
    def of(content: bytes) -> Manifest:
        """The manifest of a whole CSV file with a header."""
        return Manifest(max(content.count(b"\n") - 1, 0), len(content), xxhash.xxh3_128_hexdigest(content))


@dataclass(frozen=True)
class Landed:
    """A landing file that was written, or was there already with the same content."""

    path: Path
    manifest: Manifest
    fresh: bool


def land(days: Collection[date], folder: Path, *, copies: int = 1) -> tuple[Landed, ...]:
    """Write the landing files of `days` under `folder`; a day without flights gets files with a header only.

    Each file appears in one step. More than one of `copies` makes larger files of the same kind: the flights of
    every further copy have numbers of their own.
    """
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


def checked(path: Path, columns: Sequence[str], folder: Path) -> None:
    """Pass a file of the landing `folder` that is whole and has these columns; else raise `BadLanding`, naming both.

    One that is not below the folder, or is a link that leads out of it, is not looked into: whoever may put files there
    would be told of others.
    """
    for each in (path, _manifest_path(path)):
        if ".." in each.parts or not each.resolve().is_relative_to(folder.resolve()):
            raise BadLanding(f"{each}: it leads out of the landing folder {folder}; land the file itself")
    if not path.is_file():
        day = path.parent.name
        raise BadLanding(f"{path}: no such landing file; `python -m spark_jobs landing --days {day}` makes one of 2013")
    _check_columns(path, columns)
    manifest = _read_manifest(path)
    found, end = _scan(path)
    if manifest is not None and found != manifest:
        what = "is cut short" if found.size < manifest.size else "is not what was sent"
        raise BadLanding(
            f"{path}: {what}: {found.size:,} bytes and {found.rows:,} rows, its manifest says"
            f" {manifest.size:,} bytes and {manifest.rows:,} rows; have it sent again"
        )
    if not end.endswith(b"\n") or len(_fields(path, end.decode())) != len(columns):
        raise BadLanding(
            f"{path}: is cut short: its last line {end.decode().strip()[:60]!r} is not whole; have it sent again"
        )


def parse_days(text: str) -> tuple[date, ...]:
    """Read `2013-01-05`, `2013-01-05..2013-01-07`, or several of them separated by commas."""
    days: dict[date, None] = {}
    for part in text.split(","):
        first, dots, last = part.strip().partition("..")
        start = date.fromisoformat(first)
        stop = date.fromisoformat(last) if dots else start
        if stop < start:
            raise ValueError(f"{part!r}: the last day lies before the first")
        days |= {date.fromordinal(day): None for day in range(start.toordinal(), stop.toordinal() + 1)}
    return tuple(days)


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
    manifest = Manifest.of(content)
    if path.is_file() and path.read_bytes() == content and _read_manifest(path) == manifest:
        return Landed(path, manifest, fresh=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    _replace(path, content)
    _replace(_manifest_path(path), (json.dumps(asdict(manifest)) + "\n").encode())
    return Landed(path, manifest, fresh=True)


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
        return Manifest(int(str(content["rows"])), int(str(content["size"])), str(content["xxh3_128"]))
    except (ValueError, KeyError, TypeError) as error:
        raise BadLanding(f"{beside}: not a manifest ({error!r}); land the file again") from error


def _check_columns(path: Path, columns: Sequence[str]) -> None:
    with path.open("rb") as file:
        first = file.readline()
    try:
        found = _fields(path, first.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise BadLanding(f"{path}: its header is not UTF-8 ({error})") from error
    if found == list(columns):
        return
    missing = [column for column in columns if column not in found]
    strange = [column for column in found if column not in columns]
    said = [f"missing: {', '.join(missing)}"] if missing else []
    said += [f"not expected: {', '.join(strange)}"] if strange else []
    raise BadLanding(f"{path}: wrong columns ({'; '.join(said) or 'another order'}); expected {', '.join(columns)}")


def _fields(path: Path, line: str) -> list[str]:
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error as error:
        raise BadLanding(f"{path}: the line {line.strip()[:60]!r} is no CSV: {error}") from error


def _scan(path: Path) -> tuple[Manifest, bytes]:
    """What the file holds by one pass over its bytes, and its last line."""
    hashed, lines, size, end = xxhash.xxh3_128(), 0, 0, b""
    decoder = getincrementaldecoder("utf-8")()
    for chunk in _chunks(path):
        hashed.update(chunk)
        lines += chunk.count(b"\n")
        try:
            decoder.decode(chunk)
        except UnicodeDecodeError as error:
            raise BadLanding(f"{path}: not UTF-8 near byte {size + error.start:,}") from error
        size += len(chunk)
        end = (end + chunk)[-_CHUNK:]
        end = end[end.rfind(b"\n", 0, -1) + 1 :]
    return Manifest(max(lines - 1, 0), size, hashed.hexdigest()), end


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk
