"""The report of a unit after a round: that it is complete, for the planner, and what was counted, for monitoring.

A worker sends it to the compacted topic of the stage's reports after it has written the state, with the unit's number
as the key. The driver looks at no file of a worker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.runtime.stamps import UpstreamPosition


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
class RoundStatus:
    """What a unit says of its newest round.

    `positions` are those after the last messages accepted from units upstream, by sender, `offsets` are the next ones
    to read, by partition. `lag` is how many messages the stage had not admitted yet, `newest_timestamp` when the newest
    message that the round has read was appended (0: it had none), `ended_at` when the round ended (both times since
    1970), `seconds` the durations of its parts. `gauges` and `timer` are those of the step's output (`Output.timer`).
    `slow_reading` is why the topic is read message by message; empty: it is read in batches. `memory` is the resident
    memory of the worker after the round, in bytes.
    """

    incarnation: int = 1
    number: int = 0
    offsets: Mapping[int, int] = field(default_factory=dict)
    positions: Mapping[int, UpstreamPosition] = field(default_factory=dict)
    lag: int = 0
    newest_timestamp: float = 0.0
    ended_at: float = 0.0
    seconds: Mapping[str, float] = field(default_factory=dict)
    gauges: Mapping[str, Any] = field(default_factory=dict)
    timer: float | None = 0.0
    slow_reading: str = ""
    memory: int = 0


@dataclass(frozen=True)
class UnitTotals:
    """What a unit has counted since the first start of the job.

    `counts` are those of the step's outputs, `cpu` the CPU seconds of its rounds, `flow` what it has accepted and sent,
    `earlier_flows` the same after each of the two rounds before, the later one first.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    cpu: float = 0.0
    flow: Flow = field(default_factory=Flow)
    earlier_flows: tuple[Flow, ...] = ()


@dataclass(frozen=True)
class StateStatus:
    """The size of a unit's state in bytes; what was replayed if it was lost; why it could not be saved at last."""

    bytes: int = 0
    recovered: str = ""
    checkpoint_error: str = ""


@dataclass(frozen=True)
class UnitReport:
    """Status of a unit after its newest round."""

    unit: int
    round: RoundStatus = field(default_factory=RoundStatus)
    totals: UnitTotals = field(default_factory=UnitTotals)
    state: StateStatus = field(default_factory=StateStatus)

    def flow_after(self, number: int) -> Flow:
        """Return the flow after the round `number`, or after the oldest one of which it is reported."""
        flows = (self.totals.flow, *self.totals.earlier_flows)
        return flows[min(max(self.round.number - number, 0), len(flows) - 1)]

    @property
    def round_id(self) -> tuple[int, int]:
        """Incarnation and round; later rounds compare greater."""
        return (self.round.incarnation, self.round.number)

    @property
    def key(self) -> bytes:
        """The key of its message: compaction keeps the newest report of each unit."""
        return str(self.unit).encode()

    def encode(self) -> bytes:
        """Encode the report as the value of a message."""
        return _REPORTS.encode(self)

    @staticmethod
    def decode(value: bytes | memoryview, where: str) -> UnitReport:
        """Decode a message's value, the inverse of `encode`; raises `DecodeError`, which names `where`."""
        return _REPORTS.decode(value, where)


_REPORTS: Codec[UnitReport] = Codec(
    UnitReport, 3, "the report of a unit", "run the job with the version that wrote it, or reset the job"
)


def sum_counts(reports: Iterable[UnitReport]) -> Counter[str]:
    """Return the summed counts of these units since the first start of the job."""
    counts: Counter[str] = Counter()
    for report in reports:
        counts.update(report.totals.counts)
    return counts
