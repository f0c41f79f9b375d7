"""What the stages of a job have counted, from what their units report after each round.

All units of a stage run the same rounds, so a stage is level with the last round that every one of them has ended; of
units that are a round ahead, what they had counted before counts. `applied` and `busy` therefore go on by whole rounds.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from springline.spark_jobs.streaming.backpressure.admission import forward
from springline.spark_jobs.streaming.backpressure.queue import Counted
from springline.spark_jobs.streaming.backpressure.rate_limit import Planned
from springline.spark_jobs.streaming.runtime.report import Flow, Report
from springline.spark_jobs.streaming.runtime.stage import Stage

_SIZE_SECONDS, _SIZE_BYTES = 2.0, 1 << 16  # over which the mean bytes of an offset are taken, at least
_WARM_ROUNDS = 4  # of a stage, in which it does what it does only once: loading code, compiling it
_LEAST_BYTES = 1 << 14  # of a round: one of less takes as long as any
_COURSE = 256  # looks that are remembered for that


def upstreams_of(stages: Sequence[Stage]) -> dict[str, tuple[str, ...]]:
    """The direct upstreams of each stage that it may throttle, in the order in which records pass."""
    by_topic = {stage.topic: stage.name for stage in stages}
    sends = {stage.name: [by_topic[topic] for topic in stage.outlets if topic in by_topic] for stage in stages}
    return forward([stage.name for stage in stages], sends)


@dataclass(frozen=True)
class Level:
    """A stage after the last round that all of its units have ended: that round, and what each unit had counted."""

    round: int
    flows: Mapping[int, Flow]

    @staticmethod
    def of(reports: Mapping[int, Report], units: int) -> Level:
        """A unit that has told nothing has counted nothing."""
        rounds = [reports[unit].round if unit in reports else 0 for unit in range(units)]
        level = min(rounds, default=0)
        flows = {unit: report.flow if report.round == level else report.before for unit, report in reports.items()}
        return Level(level, flows)

    @property
    def read(self) -> int:
        """Bytes taken by all units."""
        return sum(flow.read for flow in self.flows.values())

    def sent(self, topic: str) -> int:
        """Bytes sent to a topic by all units."""
        return sum(
            many
            for flow in self.flows.values()
            for place, many in flow.sent.items()
            if place.rpartition("[")[0] == topic
        )


@dataclass
class _Known:
    """What is remembered of a stage: its work so far, its last level, and how its offsets went on."""

    rounds: int = 0  # with something to do, that were seen
    level: Level | None = None  # at the last look
    busy: float = 0.0
    worked: int = 0
    course: deque[tuple[float, int, int]] = field(default_factory=lambda: deque(maxlen=_COURSE))  # bytes, offsets
    units: frozenset[int] = frozenset()
    size: float = 0.0

    def noted(self, at: float, read: int, offset: int) -> None:
        """All that is read by now, and how many offsets that is."""
        course = self.course
        if course and course[-1][1:] == (read, offset):
            return
        course.append((at, read, offset))
        while len(course) > 2 and course[1][0] <= at - _SIZE_SECONDS and read - course[1][1] >= _SIZE_BYTES:
            course.popleft()
        _, first_read, first_offset = course[0]
        if offset < first_offset or read < first_read:  # it has gone back
            course.clear()
        elif offset > first_offset:
            self.size = (read - first_read) / (offset - first_offset)


class Counting:
    """Counts for the stages of a job, which have so many `tasks` at most.

    A round takes as long as the task with the most work. The first rounds, and those with next to nothing to do, tell
    nothing of what a stage can do. What waits in the topic of a first stage is reckoned from its
    offsets, by the mean bytes of those that it has read lately.
    """

    def __init__(self, stages: Sequence[Stage], tasks: int) -> None:
        self._stages = {stage.name: stage for stage in stages}
        self._tasks = tasks
        self.upstreams = upstreams_of(stages)
        self._known = {name: _Known() for name in self._stages}
        self._began: float | None = None

    def size(self, stage: str) -> float:
        """The mean bytes of an offset of a stage's log, lately; 0 while it is not known."""
        return self._known[stage].size

    def count(self, at: float) -> dict[str, Counted]:
        """What each stage has counted until now, in their order."""
        self._began = at if self._began is None else self._began
        # Those downstream first: what was sent, which is looked at later, is then never less than what was taken.
        reports = {name: self._stages[name].reports() for name in reversed(self._stages)}
        levels = {name: Level.of(found, self._stages[name].units) for name, found in reports.items()}
        for name, found in reports.items():
            self._learn(self._known[name], found, levels[name], at)
        return {name: self._counted(stage, reports, levels, at) for name, stage in self._stages.items()}

    def _counted(
        self, stage: Stage, reports: Mapping[str, Mapping[int, Report]], levels: Mapping[str, Level], at: float
    ) -> Counted:
        own, known = levels[stage.name], self._known[stage.name]
        planned = Planned.read(stage)
        taken, began = own.read, None
        if planned is not None and planned.number > own.round and planned.at >= (self._began or at):
            taken += round(planned.messages * known.size)
            began = planned.at if known.rounds >= _WARM_ROUNDS else None
        sent: dict[str, int] = {}
        units: Counter[int] = Counter()
        for upstream in self.upstreams[stage.name]:
            sent[upstream] = 0
            for unit, many in _sent_to(stage, stage.units, reports[upstream].values()):
                sent[upstream] += many
                units[unit] += many
        if not sent:
            behind = max((report.behind for report in reports[stage.name].values()), default=0)
            sent = {stage.topic: taken + round(behind * known.size)}
        else:
            units.subtract({unit: flow.read for unit, flow in own.flows.items()})
        made = {
            name: own.sent(self._stages[name].topic)
            for name, upstreams in self.upstreams.items()
            if stage.name in upstreams
        }
        waits = {unit: max(many, 0) for unit, many in sorted(units.items())}
        taken = min(taken, sum(sent.values()))
        return Counted(at, sent, taken, own.read, known.busy, began, made, waits, known.worked)

    def _learn(self, known: _Known, reports: Mapping[int, Report], level: Level, at: float) -> None:
        """Note the work since the last look, and how many bytes offsets have."""
        if known.level is not None and level.round > known.level.round:
            busy, read = self._between(known.level, level)
            known.rounds += read >= _LEAST_BYTES
            if known.rounds > _WARM_ROUNDS and read >= _LEAST_BYTES:
                known.busy += busy
                known.worked += read
        known.level = level
        if set(reports) != set(known.units):
            known.course.clear()
        known.units = frozenset(reports)
        known.noted(at, sum(report.flow.read for report in reports.values()),
                    sum(report.offset for report in reports.values()))  # fmt: skip

    def _between(self, before: Level, after: Level) -> tuple[float, int]:
        """Seconds of the task with the most work, and bytes of all."""
        gone = {
            unit: max(flow.busy - (before.flows[unit].busy if unit in before.flows else 0.0), 0.0)
            for unit, flow in sorted(after.flows.items())
        }
        tasks = (list(gone.values())[task :: self._tasks] for task in range(self._tasks))
        return max(map(sum, tasks)), after.read - before.read


def _sent_to(stage: Stage, units: int, reports: Iterable[Report]) -> Iterator[tuple[int, int]]:
    """The bytes that units upstream have sent to each unit of a stage, the newest round's too."""
    for report in reports:
        for unit in range(units):
            if many := report.flow.sent.get(f"{stage.topic}[{unit}]"):
                yield unit, many
