"""What a unit tells of itself after a round: a small file beside its state, for whoever watches."""

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
    """What a unit has counted of its messages since the job began, for back-pressure.

    `read`: bytes of those that it has taken; `sent`: bytes that it has sent, by topic and unit as `topic[unit]`;
    `busy`: seconds that its rounds with messages took.
    """

    read: int = 0
    sent: Mapping[str, int] = field(default_factory=dict)
    busy: float = 0.0


@dataclass(frozen=True)
class Report:
    """How a unit is: its newest round, all that it has counted since the job began, bytes of its state.

    `behind` is how many messages the stage had not admitted yet, `newest` when the newest message that it has read was
    appended (0: the round had none), `seconds` what the parts of the round took, `at` when it ended (both since 1970),
    `gauges` what the step told, `cpu` the seconds of CPU that rounds of the unit took, with those of earlier reports.
    `offset` is how far it has read, `flow` what it has taken and sent, `before` the same after the round before.
    """

    unit: int
    round: int
    counts: Mapping[str, int]
    state_bytes: int
    behind: int
    newest: float
    seconds: Mapping[str, float] = field(default_factory=dict)
    at: float = 0.0
    gauges: Mapping[str, Any] = field(default_factory=dict)
    cpu: float = 0.0
    offset: int = 0
    flow: Flow = field(default_factory=Flow)
    before: Flow = field(default_factory=Flow)

    def write(self, folder: Path) -> None:
        """Leave it in a unit's folder, in place of the one before."""
        write_value(folder / _FILE, _REPORTS, self)

    @staticmethod
    def read(folder: Path) -> Report | None:
        """The newest one in a unit's folder; None before its first round here. Raises `DecodeError`."""
        return read_value(folder / _FILE, _REPORTS)


_REPORTS: Codec[Report] = Codec(
    Report, 1, "the report of a unit", "remove the file, and what the unit has counted begins anew"
)


def counted(reports: Iterable[Report]) -> Counter[str]:
    """All that these units have counted since the job began."""
    found: Counter[str] = Counter()
    for report in reports:
        found.update(report.counts)
    return found
