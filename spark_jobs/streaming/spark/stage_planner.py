"""What plans the rounds of a stage, in a Python process of Spark's driver."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from springline.persistence.model.codec import Codec, from_plain, plain
from springline.spark_jobs.streaming.backpressure.rate_limit import Pacing
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.atomic_files import read_json
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.driver.shifts import Shifts
from springline.spark_jobs.streaming.runtime.history import Content
from springline.spark_jobs.streaming.runtime.rounds import Plan
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.worker.task_loop import Shift

_WAIT_SECONDS = 0.2  # a planner looks for so long before it says that there is nothing


@dataclass(frozen=True)
class Watched:
    """Files that a planner looks at: what rounds are to name, and some in whose presence nothing is planned."""

    contents: Mapping[str, str]
    holds: Sequence[str]

    def encode(self) -> str:
        """As an option of a Spark query."""
        return _WATCHED.encode(self).decode()

    @staticmethod
    def decode(text: str) -> Watched:
        """The inverse of `encode`; raises `DecodeError`."""
        return _WATCHED.decode(text.encode(), "the option of a Spark query")


_WATCHED: Codec[Watched] = Codec(Watched, 1, "what a planner looks at", "end the application and start it again")


class StagePlanner:
    """Plans the rounds of a stage, as the options of `spark.start` say; rounds are JSON here, as Spark wants them."""

    def __init__(self, options: Mapping[str, str]) -> None:
        watching = _Watching(Watched.decode(options["watched"]))
        stage = Stage.decode(options["stage"])
        log = Kafka(Cluster.decode(options["cluster"]))
        self._planner = Planner(
            stage, log, time.time, watching.contents,
            latest=options["latest"] == "true", admitting=Pacing(stage), units=int(options["units"]),
        )  # fmt: skip
        self._shifts = Shifts(self._planner, watching.held, float(options["seconds"]))

    def begin(self) -> dict[str, Any]:
        """The round to go on after."""
        return _offset(self._planner.begin())

    def first(self) -> dict[str, Any] | None:
        """The first round of the next shift; None if there is nothing to do for the moment."""
        first = self._shifts.first(_WAIT_SECONDS)
        return None if first is None else _offset(first)

    def shift(self, first: dict[str, Any]) -> Shift:
        """The shift that begins with a round."""
        return self._shifts.begin(from_plain(Plan, first, "the offset of a Spark query"))


def _offset(plan: Plan) -> dict[str, Any]:
    """A round as Spark's offset."""
    found: dict[str, Any] = plain(plan)
    return found


class _Watching:
    """Looks at the watched files, and reads those again that were replaced."""

    def __init__(self, watched: Watched) -> None:
        self._paths = {name: Path(path) for name, path in watched.contents.items()}
        self._holds = [Path(hold) for hold in watched.holds]
        self._read: dict[str, tuple[tuple[int, int], Content]] = {}

    def contents(self) -> dict[str, Content]:
        """The contents as they are now."""
        return {name: self._content(name, path) for name, path in self._paths.items()}

    def held(self) -> bool:
        """Whether nothing is to be planned."""
        return any(hold.exists() for hold in self._holds)

    def _content(self, name: str, path: Path) -> Content:
        status = path.stat()
        known = (status.st_ino, status.st_mtime_ns)
        if name not in self._read or self._read[name][0] != known:
            self._read[name] = (known, Content.of(read_json(path)))
        return self._read[name][1]
