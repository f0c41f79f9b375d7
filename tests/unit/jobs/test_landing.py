"""Landing files: how they are made of the flights of 2013, and which are not taken."""

from __future__ import annotations

import csv
import json
import shutil
from datetime import date
from pathlib import Path

import pytest

from springline.spark_jobs.errors import LandingError
from springline.spark_jobs.landing import FLIGHTS, WEATHER, Landing, land, parse_days, write_manifest
from springline.spark_jobs.operations import Context
from tests.support.commands import printed

DAY = date(2013, 1, 5)


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


def landing_file(path: Path, columns: tuple[str, ...] = FLIGHTS.columns) -> Path:
    """Take a file of a day as a load does."""
    return Landing(path.parent.parent).file(path.parent.name, path.name, columns=columns)


def test_a_day_has_the_flights_of_that_day(landing_folder: Path) -> None:
    """Every row is of the day; there are as many as the package has."""
    with (landing_folder / "2013-01-05" / "flights.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 720
    assert {(row["year"], row["month"], row["day"]) for row in rows} == {("2013", "1", "5")}


def test_a_day_outside_2013_has_a_header_and_no_rows(landing_folder: Path) -> None:
    """It is a landing file like any other, and passes."""
    path = landing_folder / "2014-01-01" / "flights.csv"
    assert path.read_text().count("\n") == 1
    landing_file(path)


def test_what_was_landed_passes(landing_folder: Path) -> None:
    """Both feeds of the day are whole and have their columns."""
    landing_file(landing_folder / "2013-01-05" / "flights.csv")
    landing_file(landing_folder / "2013-01-05" / "weather.csv", WEATHER.columns)


def test_landing_a_day_again_changes_nothing(flights: Path) -> None:
    """The same content is left as it stands, its time included."""
    before = flights.stat().st_mtime_ns
    assert not any(one.is_new for one in land([DAY], flights.parent.parent))
    assert flights.stat().st_mtime_ns == before


def test_landing_a_day_again_mends_a_file_and_a_manifest(flights: Path) -> None:
    """What was spoilt is written anew."""
    flights.write_text("spoilt")
    flights.with_name("weather.csv.manifest.json").write_text(json.dumps({"lines": 1, "size": 1, "xxh3_128": "x"}))
    assert [one.is_new for one in land([DAY], flights.parent.parent)] == [True, True]
    landing_file(flights)
    landing_file(flights.with_name("weather.csv"), WEATHER.columns)


def test_nothing_unfinished_is_left_beside_a_landing_file(landing_folder: Path) -> None:
    """Files appear in one step."""
    names = sorted(path.name for path in (landing_folder / "2013-01-05").iterdir())
    assert names == ["flights.csv", "flights.csv.manifest.json", "weather.csv", "weather.csv.manifest.json"]


def test_copies_make_more_flights_each_with_its_own_number(tmp_path: Path) -> None:
    """A larger file of the same kind, for benchmarks; weather has one hour once."""
    land([DAY], tmp_path, copies=3)
    with (tmp_path / "2013-01-05" / "flights.csv").open() as file:
        keys = [(row["carrier"], row["flight"], row["origin"], row["time_hour"]) for row in csv.DictReader(file)]
    assert len(keys) == len(set(keys)) == 3 * 720
    assert (tmp_path / "2013-01-05" / "weather.csv").read_text().count("\n") == 73
    landing_file(tmp_path / "2013-01-05" / "flights.csv")


def test_a_file_cut_within_a_line_is_refused(flights: Path) -> None:
    """The error names the file, and what it has against what it should have."""
    flights.write_bytes(flights.read_bytes()[:-40])
    with pytest.raises(LandingError, match=r"flights\.csv: truncated file: .*721 lines, 65,744 bytes, .* 65,784"):
        landing_file(flights)


def test_a_file_cut_between_lines_is_refused(flights: Path) -> None:
    """It looks whole; the manifest tells."""
    lines = flights.read_bytes().splitlines(keepends=True)
    flights.write_bytes(b"".join(lines[:-100]))
    with pytest.raises(LandingError, match=r"truncated file: 621 lines, .* its manifest says 721 lines"):
        landing_file(flights)


def test_a_manifest_of_a_file_that_was_cut_within_a_line_does_not_make_it_whole(flights: Path) -> None:
    """The last line gives it away."""
    flights.write_bytes(flights.read_bytes()[:-40])
    write_manifest(flights)
    with pytest.raises(LandingError, match=r"its last line .* is incomplete"):
        landing_file(flights)


def test_a_file_without_a_manifest_is_refused_with_what_writes_one(flights: Path) -> None:
    """Nobody could tell it from a cut one; once somebody vouches for it, it is taken."""
    flights.with_name("flights.csv.manifest.json").unlink()
    with pytest.raises(
        LandingError, match=rf"no manifest flights.csv.manifest.json, .*springline landing manifest {flights}`"
    ):
        landing_file(flights)
    assert printed("landing", "manifest", str(flights)).startswith(f"{flights}: 721 lines, 65,784 bytes, checksum ")
    assert landing_file(flights) == flights


def test_who_says_so_takes_a_file_unchecked(flights: Path) -> None:
    """Cut at a line's end and without a manifest: only that it is there, below the folder, is looked at."""
    flights.write_bytes(b"".join(flights.read_bytes().splitlines(keepends=True)[:-100]))
    flights.with_name("flights.csv.manifest.json").unlink()
    landing = Landing(flights.parent.parent)
    assert landing.unchecked_file("2013-01-05", "flights.csv") == flights
    for parts in (("2013-01-05", "none.csv"), ("..", "x", "flights.csv")):
        with pytest.raises(LandingError):
            landing.unchecked_file(*parts)


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


def test_an_operation_is_given_no_way_past_the_check(tmp_path: Path) -> None:
    """The folder it sees is not a path that something could be read below of: a file comes checked, or unchecked."""
    context = Context(None, {}, Landing(tmp_path))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        context.landing / "2013-01-05"  # type: ignore[operator]


def test_a_manifest_of_nothing_is_refused(tmp_path: Path) -> None:
    """In a line that names the file."""
    with pytest.raises(LandingError, match="no such file"):
        write_manifest(tmp_path / "none.csv")


def test_a_file_that_was_altered_is_refused(flights: Path) -> None:
    """As many bytes, but others."""
    flights.write_bytes(flights.read_bytes().replace(b"2013,1,5,", b"2013,1,6,", 1))
    with pytest.raises(LandingError, match="altered file"):
        landing_file(flights)


def test_wrong_columns_are_named(flights: Path) -> None:
    """What is missing, and what nobody expects."""
    flights.write_bytes(flights.read_bytes().replace(b"dep_delay", b"delay_of_departure", 1))
    with pytest.raises(
        LandingError, match=r"flights\.csv: wrong columns \(missing: dep_delay; unexpected: delay_of_dep"
    ):
        landing_file(flights)


def test_columns_in_another_order_are_refused(flights: Path) -> None:
    """They would be read as each other."""
    flights.write_bytes(flights.read_bytes().replace(b"year,month,day", b"month,year,day", 1))
    with pytest.raises(LandingError, match="different order"):
        landing_file(flights)


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe\x00bad\n"], ids=["empty", "blank", "no text"])
def test_a_file_without_a_header_is_refused(flights: Path, content: bytes) -> None:
    """An empty file is not an empty day."""
    flights.write_bytes(content)
    with pytest.raises(LandingError, match=r"flights\.csv"):
        landing_file(flights)


def test_a_file_that_is_not_utf_8_is_refused(flights: Path) -> None:
    """Spark would put question marks in its place without a word."""
    flights.write_bytes(flights.read_bytes().replace(b"UA", b"\xdcA", 1))
    write_manifest(flights)
    with pytest.raises(LandingError, match="not UTF-8"):
        landing_file(flights)


def test_a_missing_file_is_told_with_what_makes_it(tmp_path: Path) -> None:
    """The error says the command."""
    with pytest.raises(LandingError, match="springline landing generate --days 2013-01-05"):
        landing_file(tmp_path / "2013-01-05" / "flights.csv")


def test_a_manifest_that_cannot_be_read_is_told(flights: Path) -> None:
    """Rather than passed over."""
    flights.with_name("flights.csv.manifest.json").write_text("{")
    with pytest.raises(LandingError, match="not a manifest"):
        landing_file(flights)


def test_days_are_read_alone_in_a_row_and_in_a_list() -> None:
    """Both ends of a range are in it; a day counts once."""
    assert parse_days("2013-01-31..2013-02-02, 2013-02-01,2014-01-01") == (
        date(2013, 1, 31),
        date(2013, 2, 1),
        date(2013, 2, 2),
        date(2014, 1, 1),
    )


@pytest.mark.parametrize("text", ["", "tomorrow", "2013-02-30", "2013-01-07..2013-01-05"])
def test_days_that_are_none_are_refused(text: str) -> None:
    """A slip is an error, not an empty list."""
    with pytest.raises(ValueError, match=r"\w"):
        parse_days(text)


@pytest.mark.parametrize("which", ["flights.csv", "flights.csv.manifest.json"])
def test_a_link_that_leads_out_of_the_landing_folder_is_not_looked_into(
    flights: Path, tmp_path_factory: pytest.TempPathFactory, which: str
) -> None:
    """An error about wrong columns would tell the first line of any file, such as a key's."""
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "token.key"
    elsewhere.write_text("hunter2\n")
    (flights.parent / which).unlink()
    (flights.parent / which).symlink_to(elsewhere)
    with pytest.raises(LandingError, match="outside of the landing folder") as refused:
        landing_file(flights)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("day", ["..", "../..", "/etc", "../landing/2013-01-05"])
def test_a_day_that_leads_out_of_the_landing_folder_is_not_looked_for(flights: Path, day: str) -> None:
    """Whatever asks for it."""
    folder = flights.parent.parent
    with pytest.raises(LandingError, match="outside of the landing folder"):
        Landing(folder).file(day, "flights.csv", columns=FLIGHTS.columns)


@pytest.mark.parametrize("text", ["", "..", "/etc", "2013-01-05/..", "2013-01-05\0", "x" * 1000, "2013-01-05..\n"])
def test_days_are_dates_and_nothing_else(text: str) -> None:
    """They become names of folders."""
    with pytest.raises(ValueError):
        parse_days(text)
