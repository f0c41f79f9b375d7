"""What joins are measured and compared on: TPC-H with keys by Zipf's law, and a Linear Road of our own.

Only columns that a predicate or a result names; dates are numbers such as 19950315, so that streams of whole numbers
and texts carry all of it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from springline.spark_jobs.streaming.sql.operations import Type

STRATEGIES = ("heavy-split-work", "heavy-split", "djb", "hash", "jb6", "jb")  # the last three are baselines

_COLUMNS = {
    "customer": ("c_custkey", "c_nationkey", "c_mktsegment"),
    "orders": ("o_orderkey", "o_custkey", "o_orderdate", "o_shippriority"),
    "lineitem": (
        "l_orderkey", "l_suppkey", "l_quantity", "l_extendedprice", "l_shipdate", "l_shipmode", "l_shipinstruct",
    ),
    "supplier": ("s_suppkey", "s_nationkey"),
}  # fmt: skip
_FOREIGN = {
    ("orders", "custkey"): ("customer", "custkey"),
    ("lineitem", "orderkey"): ("orders", "orderkey"),
    ("lineitem", "suppkey"): ("supplier", "suppkey"),
}

_LANES, _SEGMENTS, _TICK = 4, 100, 30.0  # of an expressway; seconds between two reports of a vehicle
_CLEARED = 20  # ticks until an accident is cleared away, and there is another one
_CROWDED = 1.0  # times the mean of vehicles in a segment and direction: above that all go slower

Ints = npt.NDArray[np.int64]


def zipf(keys: int, z: float) -> npt.NDArray[np.float64]:
    """The share of each key, the most frequent first; even for z = 0."""
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -z
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class Tpch:
    """TPC-H at a scale factor; which row a foreign key names is drawn by Zipf's law with the exponent `z`.

    The same key is heavy wherever it is one; a table's rows come in the order in which TPC-H has them.
    """

    scale: float
    z: float
    seed: int = 1

    def table(self, name: str) -> pa.Table:
        """One of customer, orders, lineitem and supplier, columns without their prefix."""
        table = _plain(self.scale, name)
        for (own, column), (other, key) in _FOREIGN.items():
            if own == name:
                keys = _plain(self.scale, other)[key].to_numpy()
                place = table.column_names.index(column)
                table = table.set_column(place, column, pa.array(self._drawn(column, keys, table.num_rows)))
        return table

    def _drawn(self, column: str, keys: Ints, rows: int) -> Ints:
        random = np.random.default_rng([self.seed, *column.encode()])
        heavy_first = random.permutation(keys)
        return np.asarray(heavy_first[np.searchsorted(np.cumsum(zipf(keys.size, self.z))[:-1], random.random(rows))])


@cache
def _plain(scale: float, name: str) -> pa.Table:
    with tempfile.TemporaryDirectory() as folder:
        generator = Path(sys.executable).with_name("tpchgen-cli")
        options = [f"--scale-factor={scale}", f"--tables={name}", f"--output-dir={folder}"]
        subprocess.run([generator, "parquet", *options], check=True, capture_output=True)
        read = pq.read_table(Path(folder) / f"{name}.parquet", columns=list(_COLUMNS[name]))
    columns = {column.partition("_")[2]: _simple(read[column]) for column in _COLUMNS[name]}
    return pa.table(columns)


def _simple(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates as numbers, decimals as doubles."""
    if pa.types.is_date(column.type):
        parts = (pc.multiply(pc.year(column), 10_000), pc.multiply(pc.month(column), 100), pc.day(column))
        return pc.add(pc.add(parts[0], parts[1]), parts[2])
    if pa.types.is_decimal(column.type):
        return column.cast(pa.float64())
    return column.cast(pa.int64() if pa.types.is_integer(column.type) else pa.string())


@dataclass(frozen=True)
class Roads:
    """Position reports of vehicles on an expressway of 100 segments, 4 lanes and 2 directions, as in Linear Road.

    Each vehicle reports every 30 seconds where it is, at whole miles an hour. Most want to go at 65, where a segment is
    full all go slower, behind an accident they stand; so some speeds are far more frequent than others.
    """

    rows: int
    vehicles: int = 20_000
    seed: int = 1

    def table(self) -> pa.Table:
        """Columns time (seconds), vid, speed, lane, dir, seg, all int; rows in the order of time."""
        random = np.random.default_rng(self.seed)
        desired_speed = random.normal(65, 8, self.vehicles).clip(30, 100)
        direction = random.integers(0, 2, self.vehicles)
        place = random.random(self.vehicles) * _SEGMENTS
        accident = np.zeros(2, np.int64)
        parts = []
        for tick in range(-(-self.rows // self.vehicles)):
            if tick % _CLEARED == 0:
                accident = random.integers(0, _SEGMENTS, 2)  # one in each direction
            segment = place.astype(np.int64)
            crowd = np.bincount(direction * _SEGMENTS + segment, minlength=2 * _SEGMENTS)
            free = np.minimum(1.0, _CROWDED * crowd.mean() / crowd[direction * _SEGMENTS + segment])
            speed = (desired_speed * free + random.normal(0, 2, self.vehicles)).clip(0, 100)
            speed[(segment == accident[direction]) & (random.random(self.vehicles) < 0.8)] = 0.0
            lane = np.clip(speed // 25, 0, _LANES - 1).astype(np.int64)
            columns = {
                "time": np.full(self.vehicles, int(tick * _TICK)), "vid": np.arange(self.vehicles),
                "speed": np.rint(speed).astype(np.int64), "lane": lane, "dir": direction, "seg": segment,
            }  # fmt: skip
            parts.append(pa.table(columns))
            place = (place + speed * _TICK / 3600) % _SEGMENTS
        return pa.concat_tables(parts).slice(0, self.rows).combine_chunks()


def fields_of(table: pa.Table) -> Mapping[str, Type]:
    """How a stream of these rows declares them."""
    kinds: dict[pa.DataType, Type] = {pa.int64(): "int", pa.float64(): "float", pa.string(): "text"}
    return {field.name: kinds[field.type] for field in table.schema}
