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
class UnitReport:
    """Status of a unit: its newest round, its counts since the first start of the job, the size of its state.

    `positions` are those after the last messages accepted from units upstream, by sender. `lag` is how many messages
    the stage had not admitted yet, `newest_timestamp` when the newest message that it has read was appended (0: the
    round had none), `seconds` the durations of the parts of the round, `ended_at` when it ended (both times since
    1970), `gauges` those of the step's output, `cpu` the cumulated CPU seconds of the unit's rounds. `offset` is the
    next offset to read, `flow` what it has accepted and sent, `earlier_flows` the same after each of the two rounds
    before, the later one first. `recovered` says what was replayed if its state was lost, `checkpoint_error` why its
    state could not be saved at last. `timer` is that of the step's output (`Output.timer`).
    """

    unit: int
    round: int
    counts: Mapping[str, int]
    state_bytes: int
    lag: int
    newest_timestamp: float
    incarnation: int = 1
    positions: Mapping[int, UpstreamPosition] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    ended_at: float = 0.0
    gauges: Mapping[str, Any] = field(default_factory=dict)
    cpu: float = 0.0
    offset: int = 0
    flow: Flow = field(default_factory=Flow)
    earlier_flows: tuple[Flow, ...] = ()
    recovered: str = ""
    checkpoint_error: str = ""
    timer: float | None = 0.0

    def flow_after(self, number: int) -> Flow:
        """Return the flow after the round `number`, or after the oldest one of which it is reported."""
        flows = (self.flow, *self.earlier_flows)
        return flows[min(max(self.round - number, 0), len(flows) - 1)]

    @property
    def round_id(self) -> tuple[int, int]:
        """Incarnation and round; later rounds compare greater."""
        return (self.incarnation, self.round)

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
    UnitReport, 1, "the report of a unit", "run the job with the version that wrote it, or reset the job"
)


def sum_counts(reports: Iterable[UnitReport]) -> Counter[str]:
    """Return the summed counts of these units since the first start of the job."""
    counts: Counter[str] = Counter()
    for report in reports:
        counts.update(report.counts)
    return counts
