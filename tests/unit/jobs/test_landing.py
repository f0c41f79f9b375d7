"""Landing files: how they are made of the flights of 2013, and which are not taken."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from springline.spark_jobs.errors import JobUsageError, LandingError
from springline.spark_jobs.landing import FLIGHTS, WEATHER, Landing, land, parse_days, write_manifest
from tests.support.commands import printed

DAY = date(2013, 1, 5)
Damage = Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def landing_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the landing files of a day with flights and of one without."""
    folder = tmp_path_factory.mktemp("landing")
    land([DAY, date(2014, 1, 1)], folder)
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
    return Landing(path.parent.parent).file(path.parent.name, path.name, columns=columns)


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
    assert not any(one.is_new for one in land([DAY], flights.parent.parent))
    assert flights.stat().st_mtime_ns == before
    flights.write_text("spoilt")
    flights.with_name("weather.csv.manifest.json").write_text(json.dumps({"lines": 1, "size": 1, "xxh3_128": "x"}))
    assert [one.is_new for one in land([DAY], flights.parent.parent)] == [True, True]
    landing_file(flights)
    landing_file(flights.with_name("weather.csv"), WEATHER.columns)


def test_copies_make_more_flights_each_with_its_own_number(tmp_path: Path) -> None:
    """A larger file of the same kind, for benchmarks; weather has one hour once."""
    land([DAY], tmp_path, copies=3)
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
    landing = Landing(flights.parent.parent)
    assert landing.unchecked_file("2013-01-05", "flights.csv") == flights
    for parts in (("2013-01-05", "none.csv"), ("..", "x", "flights.csv")):
        with pytest.raises(LandingError):
            landing.unchecked_file(*parts)


@pytest.mark.parametrize("day", ["..", "/etc"])
def test_a_day_that_leads_out_of_the_landing_folder_is_not_looked_for(flights: Path, day: str) -> None:
    """Whatever asks for it."""
    with pytest.raises(LandingError, match="outside of the landing folder"):
        Landing(flights.parent.parent).file(day, "flights.csv", columns=FLIGHTS.columns)


@pytest.mark.parametrize("content", [b"", b"one", b"one\n", b"one\ntwo", b"\xff\x00\n\n"])
def test_a_file_of_any_kind_is_what_its_manifest_says_or_refused(tmp_path: Path, content: bytes) -> None:
    """Without columns nothing is asked of its text."""
    file = tmp_path / "day" / "any.bin"
    file.parent.mkdir()
    file.write_bytes(content)
    write_manifest(file)
    assert Landing(tmp_path).file("day", "any.bin") == file
    for other in (content + b"\n", content[:-1] or b"x"):
        file.write_bytes(other)
        with pytest.raises(LandingError, match="checksum"):
            Landing(tmp_path).file("day", "any.bin")


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
    write_manifest(flights)
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
    write_manifest(file)
    assert Landing(tmp_path).file("day", "sales.csv", columns=("drink", "note")) == file


def test_a_file_and_a_manifest_that_are_not_there_or_cannot_be_read_are_reported(flights: Path) -> None:
    """With what makes a missing file; a damaged manifest is not passed over."""
    flights.with_name("flights.csv.manifest.json").write_text("{")
    with pytest.raises(LandingError, match="not a manifest"):
        landing_file(flights)
    flights.unlink()
    with pytest.raises(LandingError, match="springline landing generate --days 2013-01-05"):
        landing_file(flights)
    with pytest.raises(LandingError, match="no such file"):
        write_manifest(flights)


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
