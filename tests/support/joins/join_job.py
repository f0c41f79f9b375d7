"""A join on a real Kafka, as a process of its own that a test may harm, and start again."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from springline.spark_jobs.streaming.join.rebalance import read_explanation
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from tests.support.servers.servers import Running
from tests.support.streams.application import Application
from tests.support.streams.stream_job import read_committed

FIELDS = [["id", "int"], ["k", "int"], ["v", "int"]]
Row = tuple[int, int, int]  # id, k, v


class JoinJob(Application):
    """A join of two topics of two partitions each; `table` are lines of its table."""

    def __init__(self, kafka: Running, home: Path, *, on: str, table: str = "", **settings: str) -> None:
        name = f"join_{uuid.uuid4().hex[:8]}"
        self.left, self.right = f"{name}-left", f"{name}-right"
        sides = "".join(
            f'[{name}.{side}]\ntopic = "{topic}"\nfields = {json.dumps(FIELDS)}\n\n'
            for side, topic in (("left", self.left), ("right", self.right))
        )
        declared = f'[{name}]\nkind = "join"\non = "{on}"\nselect = ["l.id AS l", "r.id AS r"]\n{table}\n\n{sides}'
        super().__init__(kafka, home, name, declared, **settings)

    def feed(self, rows: Mapping[str, Sequence[Row]], in_a_message: int) -> None:
        """Send rows of each topic, in messages of so many lines, to the partitions in turn."""
        with closing(Kafka(Cluster(self.kafka.address))) as log:
            log.create(dict.fromkeys(rows, 3))
            with log.record_sender() as sending:
                for topic, own in rows.items():
                    for number, first in enumerate(range(0, len(own), in_a_message)):
                        lines = (",".join(map(str, row)) for row in own[first : first + in_a_message])
                        sending.send(OutgoingRecord(topic, number % 3, "\n".join(lines).encode()))

    def pairs(self) -> Counter[tuple[int, int]]:
        """The pairs of ids, as a plain consumer sees them that reads what is committed."""
        pair_counts: Counter[tuple[int, int]] = Counter()
        for value, _ in read_committed(self.kafka.address, f"{self.name}.results"):
            pair_counts.update((pair["l"], pair["r"]) for pair in map(json.loads, value.splitlines()))
        return pair_counts

    def copies_deleted(self) -> int:
        """How many offsets of the topic of copies are not there any more."""
        with closing(Kafka(Cluster(self.kafka.address))) as log:
            return sum(extent.low for extent in log.offset_bounds(f"{self.name}.copies").values())

    def rows_through(self) -> int:
        """How many rows routers have read."""
        return int(self.status().stages.get("route", {}).get("counts", {}).get("rows", 0))

    def explained(self) -> Mapping[str, Any]:
        """What the controller reports."""
        return read_explanation(self.folder) or {}

    def await_pairs(self, expected_pairs: Counter[tuple[int, int]], *, patience: float = 240) -> None:
        """Wait until at least so many pairs are emitted."""
        total = sum(expected_pairs.values())

        def all_are_reported(status: Any) -> bool:
            counts = status.stages.get("join", {}).get("counts", {})
            return int(counts.get("pairs", 0)) >= total and sum(self.pairs().values()) >= total

        self.await_(all_are_reported, patience=patience)


def skewed(many: int, keys: int, z: float, seed: int, first: int = 0) -> list[Row]:
    """Rows whose keys follow Zipf's law."""
    drawn = np.random.default_rng(seed)
    chances = 1 / np.arange(1, keys + 1) ** z
    drawn_keys = drawn.choice(keys, many, p=chances / chances.sum())
    values = drawn.integers(0, 100, many)
    return [
        (first + number, int(key), int(value))
        for number, (key, value) in enumerate(zip(drawn_keys, values, strict=True))
    ]
