"""Partials, sums, sketches and runs: what is added up in whatever order comes out the same."""

import math
import random
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.kernels.hash_tables import NumberTable, TextTable
from springline.spark_jobs.streaming.windows.aggregation import partials
from springline.spark_jobs.streaming.windows.aggregation.partials import merge
from springline.spark_jobs.streaming.windows.aggregation.sketches import estimate, sketches_of, union
from springline.spark_jobs.streaming.windows.state.slices import push_run, slices_between, slices_in
from tests.support.decoding.windows_job import Job, csv, registry

T = 1_700_000_040


def batch(*rows: tuple[int, int, str | None, int]) -> pa.RecordBatch:
    """Partials (slice, hash, key, rows)."""
    slices, hashes, keys, counts = zip(*rows, strict=True)
    arrays = [pa.array(slices), pa.array(hashes, pa.uint64()), pa.array(keys, pa.string()), pa.array(counts)]
    unsorted_batch = pa.RecordBatch.from_arrays(arrays, ["slice", "hash", "k0", "rows()"])
    order = partials.sort_order(np.array(slices, np.int64), np.array(hashes, np.uint64))
    return unsorted_batch.take(pa.array(order))


def rows_of(partials: pa.RecordBatch | None) -> list[tuple[object, ...]]:
    assert partials is not None
    return [tuple(row.values()) for row in partials.to_pylist()]


def test_partials_of_one_group_are_added_up() -> None:
    """Within a slice, or over slices into a window."""
    one, other = batch((0, 7, "x", 1), (1, 7, "x", 2)), batch((0, 7, "x", 3), (0, 9, "y", 4))
    assert rows_of(merge([one, other])) == [(0, 7, "x", 4), (0, 9, "y", 4), (1, 7, "x", 2)]
    assert rows_of(merge([one, other], into=5)) == [(5, 7, "x", 6), (5, 9, "y", 4)]
    assert merge([]) is None


def test_a_whole_job_distinguishes_groups_of_one_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a hash that is the same for all; null is a key like others."""
    monkeypatch.setattr(partials, "hash_parts", lambda hashes, parts: hashes.fill(1))
    monkeypatch.setattr(
        "springline.spark_jobs.streaming.windows.aggregation.grouping.hashes_of", lambda n, parts: np.ones(n, np.uint64)
    )
    job = Job(registry({"q": "SELECT sip, kind, sum(bytes) AS n FROM S GROUP BY sip, kind WINDOWING 60 s"}), reducers=2)
    for _ in range(3):
        job.round([csv(*((T + i, f"s{i % 3}", ("k" if i % 2 else ""), i, 0) for i in range(12)))])
    job.finish()
    groups = sorted((row["sip"], row["kind"] or "", row["n"]) for row in job.rows("q"))
    expected = {(f"s{i % 3}", ("k" if i % 2 else "")): 0 for i in range(6)}
    for i in range(12):
        expected[f"s{i % 3}", ("k" if i % 2 else "")] += 3 * i
    assert groups == sorted((*key, n) for key, n in expected.items())


def test_sums_of_doubles_do_not_depend_on_their_order() -> None:
    """Not even where they cancel: the sum is that of exact arithmetic, rounded once."""
    values = [1e16, 1.0, -1e16, 0.1, 1e-9, 3e15, -3e15] * 5
    for seed in range(5):
        random.Random(seed).shuffle(values)
        job = Job(registry({"q": "SELECT sum(load) AS s, avg(load) AS m FROM S WINDOWING 60 s"}), mappers=2)
        job.round(
            [csv(*((T, "x", "a", 1, v) for v in values[:9]))], [csv(*((T, "x", "a", 1, v) for v in values[9:20]))]
        )
        job.round([csv(*((T, "x", "a", 1, v) for v in values[20:]))])
        job.finish()
        (row,) = job.rows("q")
        assert row["s"] == math.fsum(values)
        assert row["m"] == math.fsum(values) / len(values)


def test_extremes_of_doubles_do_not_depend_on_their_order() -> None:
    """Negative zero is less than zero."""
    sql = "SELECT min(load) AS lo, max(load) AS hi, min(bytes) AS low, max(bytes) AS high FROM S WINDOWING 60 s"
    for order in permutations([0.0, -0.0, 0.0]):
        job = Job(registry({"q": sql}), mappers=2)
        job.round([csv((T, "x", "a", 0, order[0]))], [csv((T, "x", "a", 0, order[1]), (T, "x", "a", -1, order[2]))])
        job.finish()
        (row,) = job.rows("q")
        assert [math.copysign(1.0, row[name]) for name in ("lo", "hi")] == [-1.0, 1.0]
        assert (row["low"], row["high"]) == (-1, 0)


def test_sketches_are_exact_for_few_values_and_close_for_many_and_do_not_depend_on_order() -> None:
    """Numbers, texts (the empty one too), and unions of parts that overlap."""

    def sketch(values: list[object]) -> bytes:
        array = pa.array([None, *values])
        codes = np.arange(1, len(values) + 1)
        return sketches_of(np.zeros(len(values), np.int64), codes, array, 1)[0]

    assert estimate(sketch(["", "a", "b"])) == 3
    assert estimate(sketch(list(range(2000)))) == 2000
    many = [f"value {i}" for i in range(50_000)]
    sketch_of_all = sketch(many)
    assert abs(estimate(sketch_of_all) - 50_000) < 50_000 * 0.022 * 4
    parts = [sketch(many[i * 5000 : i * 5000 + 9000]) for i in range(10)]
    assert union(parts) == union(reversed(parts)) == union([sketch_of_all]) == sketch_of_all


def test_runs_are_few_and_old_ones_are_kept_as_they_are() -> None:
    """Fewer than eight of a size; what is merged is merged with seven others."""
    runs: tuple[pa.RecordBatch, ...] = ()
    written_rows = 0
    for number in range(200):
        before = set(map(id, runs))
        runs = push_run(runs, batch(*((number, hashed, "x", 1) for hashed in range(10))))
        written_rows += sum(run.num_rows for run in runs if id(run) not in before)
        assert len(runs) <= 21
    assert sum(run.num_rows for run in runs) == 2000
    assert written_rows < 2000 * 4
    assert slices_in(runs) == list(range(200))


def test_slices_below_the_floor_go_with_their_run_or_when_it_is_merged() -> None:
    """A run is not written again for that alone; eight of a size are merged."""
    big, small = batch(*((0, h, "x", 1) for h in range(50)), (1, 1, "x", 1)), batch((2, 1, "x", 1))
    assert push_run((big,), small, 1) == (big, small)
    assert push_run((big,), small, 2) == (small,)
    others = tuple(batch(*((2, h, "x", 1) for h in range(50))) for _ in range(7))
    assert push_run((big, *others[:5]), others[5], 1) == (big, *others[:6])
    (merged,) = push_run((big, *others[:6]), others[6], 1)
    assert slices_in([merged]) == [1, 2]
    assert sum(row["rows()"] for row in merged.to_pylist()) == 1 + 7 * 50
    assert slices_between(small, None, 3) is small


def test_codes_are_given_in_the_order_of_first_appearance_and_survive_growth() -> None:
    """Texts of all lengths up to 40, numbers, negative ones too."""
    texts = [("é" * (i % 20) + str(i)) for i in range(5000)] * 2
    data = "".join(texts).encode()
    lengths = np.array([len(text.encode()) for text in texts], np.int32)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    table = TextTable()
    codes = table.codes(np.frombuffer(data, np.uint8), starts, lengths)
    assert codes.tolist() == list(range(1, 5001)) * 2
    assert table.texts().to_pylist() == [None, *texts[:5000]]
    assert len(set(table.hashes().tolist())) == 5001
    numbers = np.arange(-3000, 3000, dtype=np.int64)
    assert NumberTable().codes(np.concatenate([numbers, numbers])).tolist() == list(range(1, 6001)) * 2


def test_hashes_are_the_same_on_every_machine() -> None:
    """They place groups on units: these must never change."""
    table = TextTable()
    data = np.frombuffer(b"10.0.0.1a text of more than eight bytes", np.uint8)
    table.codes(data, np.array([0, 8, 8], np.int64), np.array([8, 31, 0], np.int32))
    numbers = NumberTable()
    numbers.codes(np.array([42], np.int64))
    assert table.hashes().tolist() == [0x9AE16A3B2F90404F, 0xA1F8E43D320729D, 0x8A1DA1ACD11A9074, 0x0]
    assert numbers.hashes().tolist() == [0x9AE16A3B2F90404F, 0xAC66132ECF9B1AD6]
