"""Landing files: how they are made of the flights of 2013, and which are not taken."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from springline.persistence.settings import Settings
from springline.spark_jobs.errors import JobUsageError, LandingError
from springline.spark_jobs.landing import (
    FLIGHTS,
    WEATHER,
    Landing,
    LandingFile,
    land,
    landing_of,
    parse_days,
    write_manifest,
)
from springline.spark_jobs.parquet_io import spark_path
from springline.spark_jobs.settings import JobSettings
from tests.support.commands import printed

DAY = date(2013, 1, 5)
Damage = Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def landing_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the landing files of a day with flights and of one without."""
    folder = tmp_path_factory.mktemp("landing")
    land([DAY, date(2014, 1, 1)], Landing(str(folder)))
    return folder


@pytest.fixture
def flights(landing_folder: Path, tmp_path: Path) -> Path:
    """A copy of the flights of the day that a test may spoil."""
    shutil.copytree(landing_folder / "2013-01-05", tmp_path / "2013-01-05")
    return tmp_path / "2013-01-05" / "flights.csv"


def without_last_lines(content: bytes) -> bytes:
    """The content of a file without its last hundred lines."""
    return b"".join(content.splitlines(keepends=True)[:-100])


def landing_file(path: Path, columns: tuple[str, ...] = FLIGHTS.columns) -> Path:
    """Take a file of a day as a load does."""
    return Path(Landing(str(path.parent.parent)).file(path.parent.name, path.name, columns=columns))


def test_a_day_has_the_flights_of_that_day_and_one_outside_2013_a_header_alone(landing_folder: Path) -> None:
    """Every row is of the day, as many as the package has; nothing unfinished is left beside its files."""
    with (landing_folder / "2013-01-05" / "flights.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 720
    assert {(row["year"], row["month"], row["day"]) for row in rows} == {("2013", "1", "5")}
    names = sorted(path.name for path in (landing_folder / "2013-01-05").iterdir())
    assert names == ["flights.csv", "flights.csv.manifest.json", "weather.csv", "weather.csv.manifest.json"]
    empty = landing_file(landing_folder / "2014-01-01" / "flights.csv")
    assert empty.read_text().count("\n") == 1


def test_landing_a_day_again_repairs_what_was_damaged_and_changes_nothing_else(flights: Path) -> None:
    """The same content is left as it stands, its time included; a file and a manifest are written again."""
    before = flights.stat().st_mtime_ns
    assert not any(one.is_new for one in land([DAY], Landing(str(flights.parent.parent))))
    assert flights.stat().st_mtime_ns == before
    flights.write_text("spoilt")
    flights.with_name("weather.csv.manifest.json").write_text(json.dumps({"lines": 1, "size": 1, "xxh3_128": "x"}))
    assert [one.is_new for one in land([DAY], Landing(str(flights.parent.parent)))] == [True, True]
    landing_file(flights)
    landing_file(flights.with_name("weather.csv"), WEATHER.columns)


def test_copies_make_more_flights_each_with_its_own_number(tmp_path: Path) -> None:
    """A larger file of the same kind, for benchmarks; weather has one hour once."""
    land([DAY], Landing(str(tmp_path)), copies=3)
    with (tmp_path / "2013-01-05" / "flights.csv").open() as file:
        keys = [(row["carrier"], row["flight"], row["origin"], row["time_hour"]) for row in csv.DictReader(file)]
    assert len(keys) == len(set(keys)) == 3 * 720
    assert (tmp_path / "2013-01-05" / "weather.csv").read_text().count("\n") == 73
    landing_file(tmp_path / "2013-01-05" / "flights.csv")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[:-40], r"truncated file: .*721 lines, 65,744 bytes, .* 65,784"),
        (without_last_lines, "truncated file: 621 lines, .* its manifest says 721 lines"),
        (lambda content: content.replace(b"2013,1,5,", b"2013,1,6,", 1), "altered file"),
        (lambda content: content.replace(b"dep_delay", b"delay", 1), "missing: dep_delay; unexpected: delay"),
        (lambda content: content.replace(b"year,month,day", b"month,year,day", 1), "different order"),
        (lambda content: b"", "wrong columns"),
        (lambda content: b"\xff\xfe\x00bad\n", "not UTF-8"),
    ],
    ids=["cut in a line", "cut between lines", "altered", "other columns", "another order", "empty", "no text"],
)
def test_a_damaged_file_is_refused_with_what_is_wrong(flights: Path, damage: Damage, message: str) -> None:
    """The error names the file, and what it has against what it should have."""
    flights.write_bytes(damage(flights.read_bytes()))
    with pytest.raises(LandingError, match=rf"flights\.csv: .*{message}"):
        landing_file(flights)


def test_a_file_without_a_manifest_is_refused_with_what_writes_one(flights: Path) -> None:
    """It could not be distinguished from a truncated one; once a user vouches for it, it is used."""
    flights.with_name("flights.csv.manifest.json").unlink()
    with pytest.raises(
        LandingError, match=rf"no manifest flights.csv.manifest.json, .*springline landing manifest {flights}`"
    ):
        landing_file(flights)
    assert printed("landing", "manifest", str(flights)).startswith(f"{flights}: 721 lines, 65,784 bytes, checksum ")
    assert landing_file(flights) == flights


def test_who_says_so_takes_a_file_unchecked(flights: Path) -> None:
    """Cut at a line's end and without a manifest: only that it is there, below the folder, is checked."""
    flights.write_bytes(without_last_lines(flights.read_bytes()))
    flights.with_name("flights.csv.manifest.json").unlink()
    landing = Landing(str(flights.parent.parent))
    assert landing.unchecked_file("2013-01-05", "flights.csv") == str(flights)
    for parts in (("2013-01-05", "none.csv"), ("..", "x", "flights.csv")):
        with pytest.raises(LandingError):
            landing.unchecked_file(*parts)


@pytest.mark.parametrize("day", ["..", "/etc"])
def test_a_day_that_leads_out_of_the_landing_folder_is_not_looked_for(flights: Path, day: str) -> None:
    """Whatever asks for it."""
    with pytest.raises(LandingError, match="outside of the landing folder"):
        Landing(str(flights.parent.parent)).file(day, "flights.csv", columns=FLIGHTS.columns)


@pytest.mark.parametrize("content", [b"", b"one", b"one\n", b"one\ntwo", b"\xff\x00\n\n"])
def test_a_file_of_any_kind_is_what_its_manifest_says_or_refused(tmp_path: Path, content: bytes) -> None:
    """Without columns nothing is asked of its text."""
    file = tmp_path / "day" / "any.bin"
    file.parent.mkdir()
    file.write_bytes(content)
    write_manifest(LandingFile.at(str(file)))
    assert Landing(str(tmp_path)).file("day", "any.bin") == str(file)
    for other in (content + b"\n", content[:-1] or b"x"):
        file.write_bytes(other)
        with pytest.raises(LandingError, match="checksum"):
            Landing(str(tmp_path)).file("day", "any.bin")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[:-40], r"its last record '2013,1,5,.* is incomplete"),
        (lambda content: content[:-40] + b',"and', r"its last record '2013,1,5,.*,and' is incomplete"),
        (lambda content: content + b'"' + b"a" * 200_000, r"not valid CSV up to line 722: field larger"),
        (lambda content: content.replace(b"UA", b"\xdcA", 1), "not UTF-8"),
        (lambda content: content + b"\xc3", "not UTF-8"),
    ],
    ids=["cut in a line", "cut in quotes", "a quote that is never closed", "not UTF-8", "cut in a letter"],
)
def test_a_manifest_of_a_damaged_file_does_not_make_it_whole(flights: Path, damage: Damage, message: str) -> None:
    """The sender may have written the manifest after the damage."""
    flights.write_bytes(damage(flights.read_bytes()))
    write_manifest(LandingFile.at(str(flights)))
    with pytest.raises(LandingError, match=message):
        landing_file(flights)


@pytest.mark.parametrize(
    "content",
    [
        "drink,note\ntea,hot", "drink,note\r\ntea,hot\r\n", "drink,note\rtea,hot", "drink,note\ntea,hot\n\n",
        'drink,note\ntea,"very\nhot"\n', 'drink,note\ntea,"very\r\nhot, ""too"""', '"drink",note\ntea,5" pipe',
        "\ufeffdrink,note", "drink,note\n",
    ],
)  # fmt: skip
def test_a_record_is_not_a_line(tmp_path: Path, content: str) -> None:
    """It may have several lines, and the last one needs no end; no more is asked of it than its columns."""
    file = tmp_path / "day" / "sales.csv"
    file.parent.mkdir()
    file.write_bytes(content.encode())
    write_manifest(LandingFile.at(str(file)))
    assert Landing(str(tmp_path)).file("day", "sales.csv", columns=("drink", "note")) == str(file)


def test_a_file_and_a_manifest_that_are_not_there_or_cannot_be_read_are_reported(flights: Path) -> None:
    """With what makes a missing file; a damaged manifest is not passed over."""
    flights.with_name("flights.csv.manifest.json").write_text("{")
    with pytest.raises(LandingError, match="not a manifest"):
        landing_file(flights)
    flights.unlink()
    with pytest.raises(LandingError, match="springline landing generate --days 2013-01-05"):
        landing_file(flights)
    with pytest.raises(LandingError, match="no such file"):
        write_manifest(LandingFile.at(str(flights)))


def test_days_are_read_alone_in_a_row_and_in_a_list() -> None:
    """Both ends of a range are in it; a day counts once."""
    days = [str(day) for day in parse_days("2013-01-31..2013-02-02, 2013-02-01,2014-01-01")]
    assert days == ["2013-01-31", "2013-02-01", "2013-02-02", "2014-01-01"]


@pytest.mark.parametrize(
    "text", ["", "tomorrow", "2013-02-30", "2013-01-07..2013-01-05", "..", "/etc", "2013-01-05/..", "2013-01-05\0"]
)
def test_days_are_dates_and_nothing_else(text: str) -> None:
    """A slip is an error, not an empty list; days become names of folders."""
    with pytest.raises(JobUsageError):
        parse_days(text)


@pytest.mark.parametrize("which", ["flights.csv", "flights.csv.manifest.json"])
def test_a_link_that_leads_out_of_the_landing_folder_is_not_looked_into(
    flights: Path, tmp_path_factory: pytest.TempPathFactory, which: str
) -> None:
    """An error about wrong columns would reveal the first line of any file, such as a key's."""
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "token.key"
    elsewhere.write_text("hunter2\n")
    (flights.parent / which).unlink()
    (flights.parent / which).symlink_to(elsewhere)
    with pytest.raises(LandingError, match="outside of the landing folder") as refused:
        landing_file(flights)
    assert "hunter2" not in str(refused.value)


# ---- in other file systems


@pytest.fixture
def in_memory(flights: Path) -> Iterator[tuple[Landing, MemoryFileSystem]]:
    """The day's files in a file system of fsspec that is no folder."""
    filesystem = MemoryFileSystem()
    filesystem.put(f"{flights.parent}/", "/landing/2013-01-05/", recursive=True)
    yield Landing("memory://landing"), filesystem
    filesystem.rm("/landing", recursive=True)


def test_a_file_that_fsspec_opens_is_checked_like_one_of_a_folder(in_memory: tuple[Landing, MemoryFileSystem]) -> None:
    """What is returned is its URI."""
    landing, filesystem = in_memory
    uri = "memory://landing/2013-01-05/flights.csv"
    assert landing.file("2013-01-05", "flights.csv", columns=FLIGHTS.columns) == uri
    content = filesystem.cat_file("/landing/2013-01-05/flights.csv")
    filesystem.pipe_file("/landing/2013-01-05/flights.csv", content[:-100])
    with pytest.raises(LandingError, match=f"{uri}: truncated file: 72. lines"):
        landing.file("2013-01-05", "flights.csv", columns=FLIGHTS.columns)
    with pytest.raises(LandingError, match="wrong columns"):
        landing.file("2013-01-05", "flights.csv", columns=WEATHER.columns)
    filesystem.rm("/landing/2013-01-05/flights.csv.manifest.json")
    with pytest.raises(LandingError, match="no manifest"):
        landing.file("2013-01-05", "flights.csv", columns=FLIGHTS.columns)
    with pytest.raises(LandingError, match="no such landing file"):
        landing.file("2013-01-06", "flights.csv")
    with pytest.raises(LandingError, match="outside of the landing folder"):
        landing.file("..", "x")
    (new, _) = land([DAY], landing)
    assert new.is_new and new.path == uri
    assert landing.file("2013-01-05", "flights.csv", columns=FLIGHTS.columns) == uri


@pytest.mark.parametrize("step", ["open", "isfile", "cat_file"])
def test_whatever_a_file_system_raises_is_an_error_of_the_file(
    in_memory: tuple[Landing, MemoryFileSystem], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Which a task tries again, with the reason, and without the secrets in it."""
    landing, _ = in_memory

    def fail(*_: object, **__: object) -> None:
        raise TimeoutError("https://user:hunter2@store does not answer")

    monkeypatch.setattr(MemoryFileSystem, step, fail)
    with pytest.raises(LandingError, match=r"2013-01-05/flights.csv.*cannot be read or written now: Timeout") as caught:
        landing.file("2013-01-05", "flights.csv")
    assert "hunter2" not in str(caught.value)


def test_a_file_is_read_once(flights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apart from its first line."""
    reads: list[int] = []

    class Counting(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            reads.append(len(content := super().read(size)))
            return content

    monkeypatch.setattr(LandingFile, "open", lambda file: Counting(flights.read_bytes()))
    landing_file(flights)
    assert sum(reads) == len(flights.read_bytes())


def test_an_unknown_file_system_is_named() -> None:
    """With what is wrong."""
    with pytest.raises(LandingError, match="nosuch://landing: it cannot be opened"):
        Landing("nosuch://landing").file("a", "b")


def test_a_bucket_is_reached_by_spark_with_the_options_of_the_landing_files(tmp_path: Path) -> None:
    """Those of the under-store unless it has its own; for its bucket alone, since the under-store may be elsewhere."""
    platform = Settings(home=tmp_path, under_uri="s3://under?endpoint_url=http://a:1", under_options={"key": "k"})
    jobs = JobSettings(home=tmp_path, landing_uri="s3://raw/landing/")
    landing = landing_of(jobs, platform)
    assert (landing.address, landing.options) == ("s3://raw/landing", {"endpoint_url": "http://a:1", "key": "k"})
    assert landing.hadoop_conf["fs.s3a.bucket.raw.endpoint"] == "http://a:1"
    own = JobSettings(home=tmp_path, landing_uri="s3://raw", landing_options={"region": "eu-west-1"})
    assert landing_of(own, platform).options == {"region": "eu-west-1"}
    assert landing_of(JobSettings(home=tmp_path), platform) == Landing(str(tmp_path / "landing"))
    assert "'k'" not in repr(landing)
    assert spark_path("s3://raw/landing/a[1].csv") == "s3a://raw/landing/a\\[1\\].csv"
