"""The report of a unit after a round: a small file beside its state, for the heartbeat and monitoring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.runtime.atomic_files import read_value, write_value

_FILE = "report.json"


@dataclass(frozen=True)
class Flow:
    """What a unit has counted of its messages since the first start of the job, for back-pressure.

    `read_bytes`: bytes of the messages that it has accepted; `sent_bytes`: bytes that it has sent, by receiver as
    `topic[unit]`; `busy_seconds`: duration of its rounds with messages.
    """

    read_bytes: int = 0
    sent_bytes: Mapping[str, int] = field(default_factory=dict)
    busy_seconds: float = 0.0


@dataclass(frozen=True)
class UnitReport:
    """Status of a unit: its newest round, its counts since the first start of the job, the size of its state.

    `lag` is how many messages the stage had not admitted yet, `newest_timestamp` when the newest message that it has
    read was appended (0: the round had none), `seconds` the durations of the parts of the round, `ended_at` when it
    ended (both times since 1970), `gauges` those of the step's output, `cpu` the cumulated CPU seconds of the unit's
    rounds. `offset` is the next offset to read, `flow` what it has accepted and sent, `previous_flow` the same after
    the previous round.
    """

    unit: int
    round: int
    counts: Mapping[str, int]
    state_bytes: int
    lag: int
    newest_timestamp: float
    seconds: Mapping[str, float] = field(default_factory=dict)
    ended_at: float = 0.0
    gauges: Mapping[str, Any] = field(default_factory=dict)
    cpu: float = 0.0
    offset: int = 0
    flow: Flow = field(default_factory=Flow)
    previous_flow: Flow = field(default_factory=Flow)

    def write(self, folder: Path) -> None:
        """Write the report to a unit's folder, replacing the previous one."""
        write_value(folder / _FILE, _REPORTS, self)

    @staticmethod
    def read(folder: Path) -> UnitReport | None:
        """Return the newest report in a unit's folder; None before its first round here. Raises `DecodeError`."""
        return read_value(folder / _FILE, _REPORTS)


_REPORTS: Codec[UnitReport] = Codec(
    UnitReport, 1, "the report of a unit", "remove the file; the unit's counts restart from zero"
)


def sum_counts(reports: Iterable[UnitReport]) -> Counter[str]:
    """Return the summed counts of these units since the first start of the job."""
    counts: Counter[str] = Counter()
    for report in reports:
        counts.update(report.counts)
    return counts
