"""Persisted datasets go into their tables, each once, whatever fails in between."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import update

from springline.persistence.catalog import table_claims
from springline.persistence.catalog.schema import table_write
from springline.persistence.catalog.table_claims import TableClaims, TableLease
from springline.persistence.errors import ExtensionError, UsageError
from springline.persistence.lakehouse.table import LakehouseTable, TableEntry, open_table
from springline.persistence.model.dataset import Ref, Strategy
from springline.persistence.platform import Platform
from springline.testing.lines import make_dataset
from tests.support.commands import invoke
from tests.support.datasets.states import lose_catalog, wipe_cache
from tests.support.datasets.tables import (
    FORMATS,
    catalog_variables,
    environment,
    numbers,
    read_by_others,
    uri_of,
    write_parquet,
)

PlatformWith = Callable[..., AbstractContextManager[Platform]]


class KilledError(BaseException):
    """The process ends here."""


@pytest.fixture(autouse=True)
def iceberg_catalog(tmp_path: Path) -> Iterator[None]:
    with environment(catalog_variables(tmp_path)):
        yield


@pytest.fixture(params=FORMATS)
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return uri_of(request.param, tmp_path)


@pytest.fixture
def platform_with(open_at: Callable[..., Platform]) -> PlatformWith:
    """Opens a platform whose datasets go into these tables."""

    @contextmanager
    def open_(tables: dict[str, str], **settings: Any) -> Iterator[Platform]:
        yield open_at(tables=tables, **settings)

    return open_


def rows_of(**days: tuple[int, ...]) -> dict[tuple[int, str], int]:
    return {(value, day.replace("_", "-")): 1 for day, values in days.items() for value in values}


def test_each_persisted_dataset_of_the_template_is_in_the_table_once(platform_with: PlatformWith, uri: str) -> None:
    with platform_with({"etl/{ds}/clean": uri}) as platform:
        write_parquet(platform, "etl/d1/clean", numbers(1, 2), numbers(3))
        write_parquet(platform, "etl/d2/clean", numbers(4))
        write_parquet(platform, "etl/d2/other", numbers(5))
        write_parquet(platform, "etl/x/d3/clean", numbers(6))
        write_parquet(platform, "etl/d4/clean", numbers(7), strategy=Strategy.CACHE_ONLY)

        outcomes = platform.table_writer.drain()

        assert [(str(each.ref), each.error) for each in outcomes] == [("etl/d1/clean@1", ""), ("etl/d2/clean@1", "")]
        assert read_by_others(uri) == rows_of(d1=(1, 2, 3), d2=(4,))
        assert platform.table_writer.drain() == []
        assert not platform.table_writer.has_pending()
        events = [change for change in platform.catalog.history(outcomes[0].ref) if change.event == "in_table"]
        assert [change.reason for change in events] == [outcomes[0].versions[0]]
        assert outcomes[0].versions[0].startswith(f"{uri}@")


def test_a_later_generation_takes_the_place_of_the_earlier_one(platform_with: PlatformWith, uri: str) -> None:
    with platform_with({"etl/{ds}/clean": uri}) as platform:
        write_parquet(platform, "etl/d1/clean", numbers(1, 2))
        write_parquet(platform, "etl/d2/clean", numbers(3))
        platform.table_writer.drain()
        write_parquet(platform, "etl/d1/clean", numbers(4))

        platform.table_writer.drain()

        assert read_by_others(uri) == rows_of(d1=(4,), d2=(3,))


def test_only_the_newest_of_several_generations_is_put_there(platform_with: PlatformWith, uri: str) -> None:
    with platform_with({"etl/{ds}/clean": uri}) as platform:
        for value in (1, 2, 3):
            write_parquet(platform, "etl/d1/clean", numbers(value))

        (outcome,) = platform.table_writer.drain()

        assert outcome.ref.generation == 3
        assert read_by_others(uri) == rows_of(d1=(3,))


def test_a_table_that_is_set_later_gets_what_is_there(platform_with: PlatformWith, uri: str) -> None:
    with platform_with({}) as platform:
        write_parquet(platform, "etl/d1/clean", numbers(1))
        assert platform.table_writer.drain() == []

    with platform_with({"etl/{ds}/clean": uri}) as platform:
        platform.table_writer.drain()

    assert read_by_others(uri) == rows_of(d1=(1,))


def test_the_rows_come_from_the_under_store_after_the_cache_was_wiped(platform_with: PlatformWith, uri: str) -> None:
    with platform_with({"etl/{ds}/clean": uri}) as platform:
        write_parquet(platform, "etl/d1/clean", numbers(1))
        wipe_cache(platform)

        (outcome,) = platform.table_writer.drain()

        assert outcome.error == ""
        assert read_by_others(uri) == rows_of(d1=(1,))


@pytest.mark.parametrize("dies", ["before the commit", "after the commit"])
def test_a_worker_that_dies_beside_the_commit_is_followed_by_one_that_adds_nothing_twice(
    platform_with: PlatformWith, uri: str, dies: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with platform_with({"etl/{ds}/clean": uri}) as platform:
        write_parquet(platform, "etl/d1/clean", numbers(1, 2))
        table_type = type(open_table(uri, platform.settings))
        replace = table_type.replace

        def die(table: LakehouseTable, entry: TableEntry, rows: pa.RecordBatchReader) -> str:
            if dies == "after the commit":
                replace(table, entry, rows)
            raise KilledError

        with monkeypatch.context() as patch:
            patch.setattr(table_type, "replace", die)
            with pytest.raises(KilledError):
                platform.table_writer.drain()
        expected = rows_of(d1=(1, 2)) if dies == "after the commit" else {}
        assert read_by_others(uri) == expected
        assert platform.table_writer.drain() == []  # its lease still runs
        version = open_table(uri, platform.settings).version()

        expire_table_leases(platform)
        (outcome,) = platform.table_writer.drain()

        assert outcome.error == ""
        assert read_by_others(uri) == rows_of(d1=(1, 2))
        if dies == "after the commit":
            assert open_table(uri, platform.settings).version() == version


def expire_table_leases(platform: Platform) -> None:
    """Make every lease run out now."""
    with platform.catalog.write_transaction() as connection:
        connection.execute(update(table_write).where(table_write.c.lease_until.is_not(None)).values(lease_until=0.0))


def test_a_rebuilt_catalog_adds_nothing(platform_with: PlatformWith, uri: str) -> None:
    with platform_with({"etl/{ds}/clean": uri}) as platform:
        write_parquet(platform, "etl/d1/clean", numbers(1))
        write_parquet(platform, "etl/d1/clean", numbers(2))
        write_parquet(platform, "etl/d2/clean", numbers(3))
        platform.table_writer.drain()
        lose_catalog(platform)

    with platform_with({"etl/{ds}/clean": uri}) as platform:
        platform.maintenance.rebuild()
        version = open_table(uri, platform.settings).version()
        assert len(platform.table_writer.drain()) == 2
        assert open_table(uri, platform.settings).version() == version

    assert read_by_others(uri) == rows_of(d1=(2,), d2=(3,))


def test_two_workers_share_what_is_pending(platform_with: PlatformWith, uri: str) -> None:
    tables = {"etl/{ds}/clean": uri}
    with platform_with(tables) as one, platform_with(tables) as two:
        for day in range(6):
            write_parquet(one, f"etl/d{day}/clean", numbers(day))
        outcomes = []
        while (outcome := one.table_writer.step()) or (outcome := two.table_writer.step()):
            outcomes.append(outcome)
        assert len({each.ref for each in outcomes}) == len(outcomes) == 6
    assert read_by_others(uri) == rows_of(**{f"d{day}": (day,) for day in range(6)})


def test_one_table_that_refuses_stops_only_itself(platform_with: PlatformWith, tmp_path: Path) -> None:
    delta, iceberg = uri_of("delta", tmp_path), uri_of("iceberg", tmp_path)
    (tmp_path / "lake").write_text("a file where a folder has to be")
    with platform_with({"etl/{ds}/clean": delta, "etl/{ds}/other": iceberg}) as platform:
        write_parquet(platform, "etl/d1/clean", numbers(1))
        write_parquet(platform, "etl/d1/other", numbers(2))

        outcomes = {str(each.ref): each for each in platform.table_writer.drain()}

        assert outcomes["etl/d1/clean@1"].error
        assert not outcomes["etl/d1/other@1"].error
        assert platform.catalog.resolve("etl/d1/clean").persisted
        status = platform.table_writer.status(platform.table_writer.targets[0])
        assert (status.written, status.pending) == (0, 1)
        assert status.error == outcomes["etl/d1/clean@1"].error
        assert platform.table_writer.drain() == []  # it pauses


@pytest.mark.parametrize("bad", ["other type", "own column", "text", "folder", "columns differ"])
def test_rows_that_do_not_fit_are_refused_with_the_reason(
    platform_with: PlatformWith, tmp_path: Path, uri: str, bad: str
) -> None:
    with platform_with({"etl/{ds}/clean": uri}) as platform:
        write_parquet(platform, "etl/d1/clean", numbers(1))
        platform.table_writer.drain()
        reason = "?"
        if bad == "other type":
            write_parquet(platform, "etl/d2/clean", pa.table({"a": ["text"]}))
            reason = "has the column 'a' as int64, not as string"
        elif bad == "own column":
            write_parquet(platform, "etl/d2/clean", pa.table({"a": [1], "DS": ["d2"]}))
            reason = "has a column 'ds' itself"
        elif bad == "text":
            make_dataset(platform, "etl/d2/clean", lines=["to be"], strategy=Strategy.CACHE_THROUGH)
            reason = "is not a Parquet file"
        elif bad == "columns differ":
            write_parquet(platform, "etl/d2/clean", numbers(1), pa.table({"b": [1]}))
            reason = "part-1.parquet has other columns than part-0.parquet"
        else:
            write_parquet(platform, "etl/d2/clean", numbers(1), names=("x.parquet",))
            (tmp_path / "home/under/etl/d2/clean").rename(tmp_path / "elsewhere")
            wipe_cache(platform)
            reason = "missing or damaged"
        write_parquet(platform, "etl/d3/clean", numbers(3))

        outcomes = {each.ref.path: each.error for each in platform.table_writer.drain()}

        assert reason in outcomes["etl/d2/clean"]
        assert outcomes["etl/d3/clean"] == ""
        assert read_by_others(uri) == rows_of(d1=(1,), d3=(3,))


def test_a_damaged_file_is_refused(platform_with: PlatformWith, uri: str) -> None:
    with platform_with({"etl/{ds}/clean": uri}) as platform:
        ref = write_parquet(platform, "etl/d1/clean", numbers(*range(10_000)))
        (file,) = platform.cache.files(platform.catalog.get(ref).cache_location)
        cached = Path(platform.cache.uri(platform.catalog.get(ref).cache_location).removeprefix("file://")) / file.name
        content = bytearray(cached.read_bytes())
        content[100:400] = b"\xff" * 300
        cached.write_bytes(content)

        (outcome,) = platform.table_writer.drain()

        assert "cannot be read" in outcome.error
        assert not read_by_others(uri)


def test_results_of_a_stream_go_into_a_table_for_each_query(platform_with: PlatformWith, uri: str) -> None:
    with platform_with({"streams/flow/results/{round}": f"{uri}_{{query}}"}) as platform:
        for number in (1, 2):
            report = {
                "queries": {
                    "speed": {"rows": 1, "files": ["speed-0.parquet"]},
                    "count": {"rows": 2, "files": ["count-0.parquet", "count-1.parquet"]},
                }
            }
            write_parquet(
                platform, f"streams/flow/results/0000000{number}", numbers(number), pa.table({"n": [1]}),
                pa.table({"n": [2]}), report=report, names=("speed-0.parquet", "count-0.parquet", "count-1.parquet"),
            )  # fmt: skip

        outcomes = platform.table_writer.drain()

        assert [len(each.versions) for each in outcomes] == [2, 2]
        assert read_by_others(f"{uri}_speed") == {(1, "00000001"): 1, (2, "00000002"): 1}
        assert read_by_others(f"{uri}_count") == {(n, f"0000000{r}"): 1 for n in (1, 2) for r in (1, 2)}


def test_of_several_queries_one_that_is_refused_stops_only_itself(platform_with: PlatformWith, uri: str) -> None:
    with platform_with({"streams/flow/results/{round}": f"{uri}_{{query}}"}) as platform:
        for number, value in enumerate((1, "text")):
            report = {"queries": {name: {"rows": 1, "files": [f"{name}.parquet"]} for name in ("a", "b")}}
            write_parquet(
                platform, f"streams/flow/results/{number}", pa.table({"x": [value]}), numbers(number), report=report,
                names=("a.parquet", "b.parquet"),
            )  # fmt: skip

        first, second = platform.table_writer.drain()

        assert first.error == ""
        assert "has the column 'x' as int64" in second.error
        assert read_by_others(f"{uri}_a") == {(1, "0"): 1}
        assert read_by_others(f"{uri}_b") == {(0, "0"): 1, (1, "1"): 1}


@pytest.mark.parametrize("query", ["../../elsewhere", "a.b", "a b", "a/b", ""])
def test_a_name_of_a_query_leads_to_no_other_place(
    platform_with: PlatformWith, tmp_path: Path, uri: str, query: str
) -> None:
    with platform_with({"streams/flow/results/{round}": f"{uri}/x/y/{{query}}"}) as platform:
        report = {"queries": {query: {"rows": 1, "files": ["a.parquet"]}}}
        write_parquet(platform, "streams/flow/results/1", numbers(1), report=report, names=("a.parquet",))

        (outcome,) = platform.table_writer.drain()

        assert "a table is named by letters, digits" in outcome.error
        assert not list(tmp_path.glob("**/_delta_log")) and not list(tmp_path.glob("**/metadata"))


def test_a_generation_that_is_gone_meanwhile_is_left_out(
    platform_with: PlatformWith, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with platform_with({"etl/{ds}/clean": uri}) as platform:
        write_parquet(platform, "etl/d1/clean", numbers(1))
        write_parquet(platform, "etl/d2/clean", numbers(2))
        claim = TableClaims.claim

        def discard(claims: TableClaims, ref: Ref, table: str, owner: str) -> TableLease | None:
            if ref.path == "etl/d1/clean":
                platform.maintenance.discard(ref, "by hand")
            return claim(claims, ref, table, owner)

        monkeypatch.setattr(TableClaims, "claim", discard)

        first, second = platform.table_writer.drain()

        assert "missing or damaged" in first.error
        assert second.error == ""
        assert read_by_others(uri) == rows_of(d2=(2,))
        assert not platform.table_writer.has_pending()


def test_what_is_raised_is_not_logged_with_its_secrets(
    platform_with: PlatformWith, uri: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with platform_with({"etl/{ds}/clean": uri}) as platform:
        write_parquet(platform, "etl/d1/clean", numbers(1))
        table_type = type(open_table(uri, platform.settings))

        def refuse(*_: object) -> str:
            raise OSError("https://ann:hunter2@store does not answer")

        monkeypatch.setattr(table_type, "replace", refuse)

        (outcome,) = platform.table_writer.drain()

        status = platform.table_writer.status(platform.table_writer.targets[0])
        assert "does not answer" in status.error
        assert "hunter2" not in outcome.error + status.error + caplog.text


def test_more_datasets_than_a_page_go_there_in_order(
    platform_with: PlatformWith, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_claims, "_PAGE_SIZE", 2)
    with platform_with({"etl/{ds}/clean": uri}) as platform:
        for day in range(3):
            write_parquet(platform, f"etl/d{day}/x/clean", numbers(day))  # like the template, and not of it
            write_parquet(platform, f"etl/d{day}/clean", numbers(day))

        outcomes = platform.table_writer.drain()

        assert [each.ref.path for each in outcomes] == [f"etl/d{day}/clean" for day in range(3)]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"etl/{ds}/clean": "s3://lake/clean"}, "no installed package provides 's3'"),
        ({"etl/{ds}/clean": "clean"}, "write its format and its place"),
        ({"etl/{ds/clean": "delta:/clean"}, "SPRINGLINE_TABLES, 'etl/{ds/clean'"),
        ({"/etl/{ds}": "delta:/clean"}, "give a relative path"),
        ({"etl/{ds}": "delta:/clean/{month}"}, "has the field 'month'"),
        ({"a/{ds}": "delta:/clean", "b/{ds}": "delta:/clean"}, "have the same table"),
        ({"etl/{}": "delta:/clean"}, "write a field as"),
    ],
)
def test_an_entry_that_can_never_work_is_refused_at_once(
    platform_with: PlatformWith, tables: dict[str, str], message: str
) -> None:
    with pytest.raises((UsageError, ExtensionError), match=message), platform_with(tables):
        pass


def test_a_path_is_matched_with_its_case_and_characters(platform_with: PlatformWith, uri: str) -> None:
    with platform_with({"e_l/{ds}/50%": uri}) as platform:
        for path in ("e_l/d1/50%", "E_L/d2/50%", "exl/d3/50%", "e_l/d4/50x"):
            write_parquet(platform, path, numbers(1))

        assert [each.ref.path for each in platform.table_writer.drain()] == ["e_l/d1/50%"]


def test_a_claim_that_was_lost_changes_nothing(platform_with: PlatformWith, uri: str) -> None:
    with platform_with({"etl/{ds}/clean": uri}) as platform:
        ref = write_parquet(platform, "etl/d1/clean", numbers(1))
        claims = TableClaims(platform.catalog, 30.0)
        late = claims.claim(ref, uri, "late")
        assert late is not None
        assert claims.claim(ref, uri, "other") is None
        expire_table_leases(platform)
        platform.table_writer.drain()

        assert not claims.renew(late)
        assert not claims.complete(late, "x@1")
        assert not claims.release(late, "failed")
        assert claims.claim(ref, uri, "third") is None


def test_the_command_lists_tables(platform_with: PlatformWith, monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    with platform_with({"etl/{ds}/clean": uri}) as platform:
        write_parquet(platform, "etl/d1/clean", numbers(1))
        platform.table_writer.drain()
        write_parquet(platform, "etl/d2/clean", pa.table({"a": ["x"]}))
        platform.table_writer.drain()
        monkeypatch.setenv("SPRINGLINE_HOME", str(platform.settings.home))
        monkeypatch.setenv("SPRINGLINE_CATALOG_URL", platform.settings.catalog_url)
        monkeypatch.setenv("SPRINGLINE_TABLES", json.dumps({"etl/{ds}/clean": uri}))
        (row,) = json.loads(invoke("table", "list", "--json").stdout)
        text = invoke("table", "list").stdout

    assert (row["datasets"], row["table"], row["written"], row["pending"]) == ("etl/{ds}/clean", uri, 1, 1)
    assert "has the column 'a'" in row["error"]
    assert "etl/{ds}/clean" in text
