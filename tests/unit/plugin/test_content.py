"""A look into a generation's files: columns, a few rows as texts, and refusals of what cannot be read."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from springline.airflow.content.bounded_file import BoundedFile, Budget
from springline.airflow.content.cell_text import MOST_LETTERS, cell_text
from springline.airflow.content.errors import NoCopyError, UnreadableContentError
from springline.airflow.content.generation_content import GenerationRows, read_rows, read_schema
from springline.airflow.content.table_head import MOST_COLUMNS, ContentColumn
from springline.persistence.backends.spec import Backend
from springline.persistence.errors import StorageUnavailableError
from springline.persistence.model.dataset import Dataset, OperationResult, Strategy
from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings


def zipped(content: bytes) -> bytes:
    """As gzip has it, without the time: parameters of tests are the same in every process."""
    return gzip.compress(content, 1, mtime=0)


def commit(platform: Platform, files: dict[str, bytes], *, path: str = "a") -> Dataset:
    """A generation of these files, in the cache and in the under-store."""
    with platform.store.write(path, strategy=Strategy.CACHE_THROUGH) as writing:
        for name, content in files.items():
            with platform.cache.create(writing.location, name, len(content)) as file:
                file.write(content)
        writing.mark_complete(OperationResult(1, "d", 0.1))
    return writing.dataset


def parquet(table: pa.Table, **options: object) -> bytes:
    """The bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return bytes(sink.getvalue())


@pytest.fixture
def sample(platform: Platform) -> Callable[..., GenerationRows]:
    """The first rows of a generation of some files."""

    def read(limit: int = 20, **files: bytes) -> GenerationRows:
        named = {name.replace("_", "."): content for name, content in files.items()}
        return read_rows(platform, commit(platform, named), limit)

    return read


# ---- values


def test_a_value_is_a_text_whatever_it_is() -> None:
    """Numbers that JSON lacks, bytes and nested values too; what is missing stays missing."""
    moment = datetime(2013, 1, 5, 6, tzinfo=UTC)
    for value, text in (
        (None, None), (True, "true"), (7, "7"), (0.1, "0.1"), (float("nan"), "NaN"), (float("-inf"), "-Infinity"),
        ("<b>", "<b>"), (b"", "(0 bytes)"), (b"\xff", "0xff (1 byte)"), (bytes(17), f"0x{'00' * 16}… (17 bytes)"),
        (Decimal("1.20"), "1.20"), (moment, "2013-01-05 06:00:00+00:00"),
        ([1, None, b"x", moment], '[1, null, "0x78 (1 byte)", "2013-01-05 06:00:00+00:00"]'),
        ({"a": [float("inf")]}, '{"a": [Infinity]}'),
    ):  # fmt: skip
        assert cell_text(value) == text


@pytest.mark.fuzz
@given(st.recursive(st.none() | st.text() | st.floats() | st.binary(), lambda inner: st.lists(inner, max_size=3)))
def test_no_text_is_long_or_cannot_be_sent(value: object) -> None:
    """Halves of letters, which UTF-8 lacks, are spelled."""
    text = cell_text(value)
    assert text is None or len(text.encode()) <= 4 * MOST_LETTERS + 40
    assert cell_text("\ud800x") == "\\ud800x"


# ---- Parquet


def test_columns_of_parquet_have_types_and_rows_are_texts(platform: Platform) -> None:
    """Moments beyond Python's too; the types come from the file."""
    table = pa.table(
        {
            "n": pa.array([1, None], pa.int32()), "f": [float("nan"), 2.5], "s": ["<b>", None],
            "at": pa.array([0, None], pa.timestamp("us", tz="Europe/Berlin")),
            "ns": pa.array([1, 2], pa.timestamp("ns")),
            "day": pa.array([0, 2**30], pa.date32()), "l": [[1], []], "b": [b"\x00", b""],
            "bad": pa.array([b"\xff\xfe", b"x"]).view(pa.binary()),
        }
    )  # fmt: skip
    dataset = commit(platform, {"part-0.parquet": parquet(table)})
    schema = read_schema(platform, dataset)
    assert (schema.format, schema.store, schema.files, schema.is_inferred) == ("parquet", "cache", 1, False)
    assert schema.columns[0] == ContentColumn("n", "int32")
    assert schema.columns[3].type == "timestamp[us, tz=Europe/Berlin]"
    rows = read_rows(platform, dataset, 20)
    assert rows.is_complete and rows.rows[0] == [
        "1", "NaN", "<b>", "1970-01-01 00:00:00.000000Z", "1970-01-01 00:00:00.000000001", "1970-01-01", "[1]",
        "0x00 (1 byte)", "0xfffe (2 bytes)",
    ]  # fmt: skip
    assert rows.rows[1][:4] == [None, "2.5", None, None] and "out of range" in str(rows.rows[1][5])


def test_a_sample_goes_on_in_the_next_file_until_it_has_its_rows(sample: Callable[..., GenerationRows]) -> None:
    """Engines write empty files too; files with other columns are counted, not mixed in."""
    columns = {"empty": {"a": pa.array([], pa.int64())}, "two": {"a": [1, 2]}, "other": {"x": [0]}}
    empty, two, other = (parquet(pa.table(each)) for each in columns.values())
    rows = sample(a_parquet=empty, b_parquet=two, c_parquet=other, d_parquet=two)
    assert [row[0] for row in rows.rows] == ["1", "2", "1", "2"] and (rows.files, rows.other_files) == (4, 1)
    assert rows.is_complete
    few = sample(3, a_parquet=two, b_parquet=two)
    assert [row[0] for row in few.rows] == ["1", "2", "1"] and not few.is_complete


def test_a_wide_table_has_all_its_columns_and_the_values_of_the_first(sample: Callable[..., GenerationRows]) -> None:
    """A dot in a name is a part of it."""
    rows = sample(a_parquet=parquet(pa.table({f"c.{i}": [i] for i in range(MOST_COLUMNS + 5)})))
    assert len(rows.columns) == MOST_COLUMNS + 5 and len(rows.rows[0]) == MOST_COLUMNS
    assert rows.rows[0][MOST_COLUMNS - 1] == str(MOST_COLUMNS - 1)


def test_of_a_large_file_only_a_little_is_read(platform: Platform) -> None:
    """A row group of several megabytes, of which the first page is enough."""
    values = random.Random(1).sample(range(10**9), 500_000)
    dataset = commit(platform, {"a.parquet": parquet(pa.table({"a": values}), use_dictionary=False)})
    budget = Budget(bytes=600_000)
    assert len(read_rows(platform, dataset, 5, budget).rows) == 5
    assert dataset.bytes > 3_000_000


# ---- text


def test_json_lines_are_a_table(sample: Callable[..., GenerationRows]) -> None:
    """With the types of what was read; a line that is none has a column of its own."""
    lines = b'{"a": 1, "b": [1, {"c": NaN}]}\n\n{"a": 2.5, "d": "\\ud800"}\n[1]\n'
    rows = sample(a_json=lines)
    assert rows.columns == [
        ContentColumn("a", "number", True), ContentColumn("b", "list", True), ContentColumn("d", "text", True),
        ContentColumn("unreadable line", "text", True),
    ]  # fmt: skip
    assert rows.rows == [
        ["1", '[1, {"c": NaN}]', None, None],
        ["2.5", None, "\\ud800", None],
        [None, None, None, "[1]"],
    ]


def test_csv_has_the_columns_of_its_header(sample: Callable[..., GenerationRows]) -> None:
    """Compressed too; a short row lacks its last values."""
    rows = sample(a_csv=zipped(b'a,b\r\n1,"x, y"\r\n2\r\n'))
    assert [column.name for column in rows.columns] == ["a", "b"] and rows.rows == [["1", "x, y"], ["2", None]]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b'a\n"two\nlines"\n"two\r\nlines"', ["two\nlines", "two\r\nlines"]),
        (b"a\r1\r2", ["1", "2"]),
        ("a\r\none\u2028line\r\n".encode(), ["one\u2028line"]),
        (zipped(b"a\n1\n") + zipped(b"2\n") + bytes(20), ["1", "2"]),
    ],
)
def test_a_value_is_shown_as_it_is_in_the_file(
    sample: Callable[..., GenerationRows], content: bytes, rows: list[str]
) -> None:
    """With its own line breaks; of a file with several gzip members, all."""
    shown = sample(a_csv=content)
    assert [row[0] for row in shown.rows] == rows and shown.is_complete


@pytest.mark.parametrize(
    ("content", "count"),
    [
        (b"a\n1\n" + b'"' + b"\n" * 100_000 + b'"\n' + b"2\n" * 600_000, 20),
        (b"a\n" + (b'"' + b"xxxxxxxxx\n" * 12_000 + b'"\n') * 9, 8),
        (b"a\n1\n" + b"x" * 1_100_000 + b"\n2\n", 0),
        (zipped(b"a\n1\n" * 200_000 + b"x\n" * 600_000)[:-500], 20),
        (zipped(b"a\n1\n2\n") + zipped(b"3\n")[:-9], 2),
    ],
)
def test_what_goes_on_beyond_its_beginning_is_not_complete(
    sample: Callable[..., GenerationRows], content: bytes, count: int
) -> None:
    """A record that is cut is not shown."""
    shown = sample(a_csv=content)
    assert len(shown.rows) == count and not shown.is_complete


def test_other_text_is_lines(sample: Callable[..., GenerationRows]) -> None:
    """And nothing at all is no rows."""
    rows = sample(2, a_txt="größe\n<b>\nthird\n".encode())
    assert (rows.format, rows.rows, rows.is_complete) == ("text", [["größe"], ["<b>"]], False)
    assert sample(a_txt=b"").rows == []


def test_the_beginning_of_a_long_text_is_enough(sample: Callable[..., GenerationRows]) -> None:
    """A letter that is cut in the middle is no fault of the file, nor is a single line without an end."""
    assert len(sample(5, a_txt="äöü line\n".encode() * 300_000).rows) == 5
    (row,) = sample(5, a_txt="ä".encode() * 2_000_000).rows
    assert str(row[0]).startswith("äää")


# ---- what cannot be read


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a_bin", bytes(range(256)), "the file a.bin of a@1 is neither Parquet nor text"),
        ("a_parquet", b"PAR1 and no more", "the file a.parquet of a@1 is not a Parquet file that can be read: "),
        ("a_csv", b"\x1f\x8b\x08rubbish", "the file a.csv of a@1 is not a gzip file that can be read: "),
        ("a_csv", b'a\n"' + b"x" * 200_000 + b'"\n', "the file a.csv of a@1 is not a CSV file that can be read: field"),
    ],
)
def test_what_cannot_be_read_is_refused_with_place_reason_and_remedy(
    sample: Callable[..., GenerationRows], name: str, content: bytes, reason: str
) -> None:
    """Never with the error of a library."""
    with pytest.raises(UnreadableContentError) as refused:
        sample(**{name: content})
    assert str(refused.value).startswith(reason)
    assert str(refused.value).endswith(("read it in a task", "with the library of its format", "from its other copy"))


def test_a_look_ends_when_its_bytes_or_its_time_are_used_up(platform: Platform) -> None:
    """A single value may be larger than what a page should load, and a store may be slow."""
    dataset = commit(platform, {"a.parquet": parquet(pa.table({"a": [random.Random(1).randbytes(300_000)]}))})
    with pytest.raises(UnreadableContentError, match="of a@1: its first rows take more than 200 kB to read; "):
        read_rows(platform, dataset, 1, Budget(bytes=200_000))
    times = iter([0.0, 11.0])
    with pytest.raises(UnreadableContentError, match="did not deliver the first rows within 10 s; try again"):
        read_rows(platform, dataset, 1, Budget(clock=lambda: next(times)))


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """One platform for all examples, with a dataset `fuzz`."""
    home = tmp_path_factory.mktemp("fuzz")
    with closing(open_platform(Settings(home=home, cache_uri=f"file://{home}/cache"))) as platform:
        commit(platform, {"a": b"x"}, path="fuzz")
        yield platform


@pytest.mark.fuzz
@given(st.data())
def test_no_file_does_more_than_be_refused(fuzzed: Platform, data: st.DataObject) -> None:
    """Random bytes, and files of each format in which some bytes are others."""
    table = pa.table({"a": [1, 2], "b": [{"c": [b"x"]}, None], "t": pa.array([1, 2], pa.timestamp("ns", tz="UTC"))})
    csv = b"a,b\n1,2\n"
    full_content = data.draw(st.sampled_from([parquet(table), b'{"a": [1]}\n{"b": 2}\n', csv, zipped(csv), b""]))
    content = bytearray(full_content + data.draw(st.binary(max_size=100)) if data.draw(st.booleans()) else full_content)
    for _ in range(data.draw(st.integers(0, 4)) if content else 0):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    name = data.draw(st.sampled_from(["a.parquet", "a.json", "a.csv", "a.tsv.gz", "a"]))
    dataset = fuzzed.catalog.resolve("fuzz")
    folder = fuzzed.cache.root / dataset.cache_location  # type: ignore[attr-defined]
    for file in folder.iterdir():
        file.unlink()
    (folder / name).write_bytes(content)
    try:
        for row in read_rows(fuzzed, dataset, 5).rows:
            for text in row:
                assert text is None or text.encode() is not None
    except UnreadableContentError as refusal:
        assert f"the file {name} of fuzz@{dataset.ref.generation}" in str(refusal)


def test_a_store_that_cannot_seek_gives_what_is_small(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a large file is too far away for a look; its beginning is not."""
    monkeypatch.setattr(type(platform.cache), "can_seek", False)
    monkeypatch.setattr(type(platform.cache), "read_range", Backend.read_range)
    table = pa.table({"a": random.Random(1).sample(range(10**9), 100_000)})
    dataset = commit(platform, {"a.parquet": parquet(table, use_dictionary=False), "b.txt": b"x\n" * 500_000})
    assert len(read_rows(platform, dataset, 5, Budget(bytes=2_000_000)).rows) == 5
    with pytest.raises(UnreadableContentError, match=r"a\.parquet of a@1: its first rows take more than 500 kB"):
        read_rows(platform, dataset, 5, Budget(bytes=500_000))
    text = commit(platform, {"b.txt": b"x\n" * 2_000_000})
    assert len(read_rows(platform, text, 5, Budget(bytes=1_500_000)).rows) == 5


# ---- which copy


def test_what_the_cache_has_lost_is_read_from_the_under_store(platform: Platform) -> None:
    """Even if that was not noticed yet; what neither has is to be recovered first."""
    dataset = commit(platform, {"a.txt": b"x\n"})
    assert read_rows(platform, dataset, 1).store == "cache"
    platform.cache.delete(dataset.cache_location)
    assert read_rows(platform, dataset, 1).store == "under-store"
    platform.under.delete(dataset.under_location)
    with pytest.raises(NoCopyError, match="a@1 is not where the catalog says; check and recover it"):
        read_schema(platform, dataset)


def test_a_store_that_is_away_is_reported_if_the_other_has_no_copy(platform: Platform) -> None:
    """Else no one needs to know."""
    dataset = commit(platform, {"a.txt": b"x\n"})
    root = platform.under.root  # type: ignore[attr-defined]
    root.rename(root.with_name("away"))
    assert read_rows(platform, dataset, 1).store == "cache"
    platform.cache.delete(dataset.cache_location)
    with pytest.raises(StorageUnavailableError, match="is its disk mounted"):
        read_rows(platform, dataset, 1)


def test_what_is_being_written_has_no_rows(platform: Platform) -> None:
    """The reason says when there are some."""
    reason = "a@1 is still being written; its rows can be read after its commit"
    with pytest.raises(NoCopyError, match=reason), platform.store.write("a", strategy=Strategy.ASYNC_STORE) as writing:
        read_rows(platform, writing.dataset, 1)


# ---- a file of a store


@pytest.mark.parametrize("can_seek", [True, False])
def test_a_file_of_a_store_is_read_as_one_on_the_disk(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, can_seek: bool
) -> None:
    """At any position, in pieces of any size."""
    monkeypatch.setattr(type(platform.cache), "can_seek", can_seek)
    content = random.Random(2).randbytes(300_000)
    dataset = commit(platform, {"a": content})
    draw = random.Random(3)
    file = BoundedFile(platform.cache, dataset.cache_location, "a", len(content), Budget(1 << 30), "it")
    on_disk = io.BytesIO(content)
    for _ in range(200):
        position, size, whence = draw.randrange(len(content)), draw.randrange(100_000), draw.choice([0, 2])
        for each in (file, on_disk):
            each.seek(position if whence == 0 else -position, whence)
        assert (file.read(size), file.tell()) == (on_disk.read(size), on_disk.tell())
    file.seek(5)
    assert file.readall() == content[5:] and file.read() == b""
