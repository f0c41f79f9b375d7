"""Counters of a job's stages, computed from the reports of their units after each round.

All units of a stage run the same rounds, so the counters of a stage refer to the last round that every unit has
completed; for units that are one or two rounds ahead, their counters after that round are used. `applied` and `busy`
therefore advance by whole rounds.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from springline.spark_jobs.streaming.backpressure.admission import forward_upstreams
from springline.spark_jobs.streaming.backpressure.rate_limit import read_planned
from springline.spark_jobs.streaming.backpressure.stage_meter import StageCounts
from springline.spark_jobs.streaming.runtime.report import Flow, UnitReport
from springline.spark_jobs.streaming.runtime.report_log import ReportSource
from springline.spark_jobs.streaming.runtime.stage import Stage

_SIZE_SECONDS, _SIZE_BYTES = 2.0, 1 << 16  # minimum span for the mean bytes of an offset
_WARMUP_ROUNDS = 4  # first rounds of a stage, with one-time work: loading code, compiling it
_MIN_ROUND_BYTES = 1 << 14  # a smaller round takes no less time, so it is not sampled
_MAX_SAMPLES = 256  # maximum samples kept for the mean bytes


def upstreams_of(stages: Sequence[Stage]) -> dict[str, tuple[str, ...]]:
    """Return the direct upstreams that each stage may throttle; stages in the order in which records pass."""
    by_topic = {stage.topic: stage.name for stage in stages}
    sends = {stage.name: [by_topic[topic] for topic in stage.outlets if topic in by_topic] for stage in stages}
    return forward_upstreams([stage.name for stage in stages], sends)


@dataclass(frozen=True)
class StageProgress:
    """A stage after the last round that all of its units have completed: that round, and each unit's counters."""

    round: int
    flows: Mapping[int, Flow]

    @staticmethod
    def of(reports: Mapping[int, UnitReport], units: int) -> StageProgress:
        """Compute the progress from the latest reports; a unit without a report has counted nothing."""
        rounds = [reports[unit].round.number if unit in reports else 0 for unit in range(units)]
        last_round = min(rounds, default=0)
        return StageProgress(last_round, {unit: report.flow_after(last_round) for unit, report in reports.items()})

    @property
    def read(self) -> int:
        """Bytes read by all units."""
        return sum(flow.read_bytes for flow in self.flows.values())

    def sent(self, topic: str) -> int:
        """Return the bytes sent to a topic by all units."""
        return sum(
            size
            for flow in self.flows.values()
            for destination, size in flow.sent_bytes.items()
            if destination.rpartition("[")[0] == topic
        )


@dataclass
class _StageHistory:
    """History of a stage: its work so far, its last progress, and the samples of its offsets."""

    rounds: int = 0  # observed rounds with enough input
    progress: StageProgress | None = None  # at the last count
    busy: float = 0.0
    sampled_bytes: int = 0
    samples: deque[tuple[float, int, int]] = field(default_factory=lambda: deque(maxlen=_MAX_SAMPLES))  # bytes, offsets
    units: frozenset[int] = frozenset()
    bytes_per_offset: float = 0.0

    def add_sample(self, now: float, read: int, offset: int) -> None:
        """Add a sample: total bytes read, and the sum of offsets."""
        samples = self.samples
        if samples and samples[-1][1:] == (read, offset):
            return
        samples.append((now, read, offset))
        while len(samples) > 2 and samples[1][0] <= now - _SIZE_SECONDS and read - samples[1][1] >= _SIZE_BYTES:
            samples.popleft()
        _, first_read, first_offset = samples[0]
        if offset < first_offset or read < first_read:  # the counts went back
            samples.clear()
        elif offset > first_offset:
            self.bytes_per_offset = (read - first_read) / (offset - first_offset)


class StageAccounting:
    """Counts bytes and busy seconds of the stages of the job in `folder`, each of which runs on at most `tasks` tasks.

    A round takes as long as the task with the most work. The first rounds, and rounds with almost no input, are not
    sampled, since they do not show the capacity of a stage. The backlog in the topic of a first stage is estimated from
    its offsets, by the mean bytes of recently read ones.
    """

    def __init__(self, folder: Path, stages: Sequence[Stage], tasks: int, reports: ReportSource) -> None:
        self._folder = folder
        self._stages = {stage.name: stage for stage in stages}
        self._tasks = tasks
        self._reports = reports
        self.upstreams = upstreams_of(stages)
        self._histories = {name: _StageHistory() for name in self._stages}
        self._started_at: float | None = None

    def bytes_per_offset(self, stage: str) -> float:
        """Return the recent mean bytes of an offset of a stage's log; 0 while it is unknown."""
        return self._histories[stage].bytes_per_offset

    def count(self, now: float) -> dict[str, StageCounts]:
        """Return the counters of each stage at `now`, in the order of the stages."""
        self._started_at = now if self._started_at is None else self._started_at
        # Downstream stages first: the bytes sent, read later, are then never less than the bytes read.
        reports = {name: self._reports.reports(name) for name in reversed(self._stages)}
        progress = {
            name: StageProgress.of(stage_reports, self._stages[name].units) for name, stage_reports in reports.items()
        }
        for name, stage_reports in reports.items():
            self._update_history(self._histories[name], stage_reports, progress[name], now)
        return {name: self._stage_counts(stage, reports, progress, now) for name, stage in self._stages.items()}

    def _stage_counts(
        self,
        stage: Stage,
        reports: Mapping[str, Mapping[int, UnitReport]],
        progress: Mapping[str, StageProgress],
        now: float,
    ) -> StageCounts:
        own, history = progress[stage.name], self._histories[stage.name]
        open_rounds = [
            planned
            for planned in read_planned(self._folder, stage.name)
            if planned.number > own.round and planned.planned_at >= (self._started_at or now)
        ]
        admitted, round_started_at = own.read, None
        if open_rounds:
            admitted += round(sum(planned.messages for planned in open_rounds) * history.bytes_per_offset)
            # The step of the oldest open round begins when that of the round before ends.
            ended_at = max((report.round.ended_at for report in reports[stage.name].values()), default=0.0)
            if history.rounds >= _WARMUP_ROUNDS:
                round_started_at = max(open_rounds[0].planned_at, min(ended_at, now))
        sent: dict[str, int] = {}
        units: Counter[int] = Counter()
        for upstream in self.upstreams[stage.name]:
            sent[upstream] = 0
            for unit, size in _bytes_sent_to(stage, stage.units, reports[upstream].values()):
                sent[upstream] += size
                units[unit] += size
        if not sent:
            lag = max((report.round.lag for report in reports[stage.name].values()), default=0)
            sent = {stage.topic: admitted + round(lag * history.bytes_per_offset)}
        else:
            units.subtract({unit: flow.read_bytes for unit, flow in own.flows.items()})
        produced = {
            name: own.sent(self._stages[name].topic)
            for name, upstreams in self.upstreams.items()
            if stage.name in upstreams
        }
        unit_queues = {unit: max(many, 0) for unit, many in sorted(units.items())}
        admitted = min(admitted, sum(sent.values()))
        return StageCounts(
            now, sent, admitted, own.read, history.busy, round_started_at, produced, unit_queues, history.sampled_bytes,
            open_rounds[-1].number if open_rounds else own.round, own.round,
        )  # fmt: skip

    def _update_history(
        self, history: _StageHistory, reports: Mapping[int, UnitReport], progress: StageProgress, now: float
    ) -> None:
        """Record the work since the last call, and sample the bytes of offsets."""
        if history.progress is not None and progress.round > history.progress.round:
            busy, read = self._work_between(history.progress, progress)
            history.rounds += read >= _MIN_ROUND_BYTES
            if history.rounds > _WARMUP_ROUNDS and read >= _MIN_ROUND_BYTES:
                history.busy += busy
                history.sampled_bytes += read
        history.progress = progress
        if set(reports) != set(history.units):
            history.samples.clear()
        history.units = frozenset(reports)
        history.add_sample(now, sum(report.totals.flow.read_bytes for report in reports.values()),
                    sum(sum(report.round.offsets.values()) for report in reports.values()))  # fmt: skip

    def _work_between(self, before: StageProgress, after: StageProgress) -> tuple[float, int]:
        """Return the busy seconds of the task with the most work, and the bytes of all units."""
        busy_seconds = {
            unit: max(flow.busy_seconds - (before.flows[unit].busy_seconds if unit in before.flows else 0.0), 0.0)
            for unit, flow in sorted(after.flows.items())
        }
        tasks = (list(busy_seconds.values())[task :: self._tasks] for task in range(self._tasks))
        return max(map(sum, tasks)), after.read - before.read


def _bytes_sent_to(stage: Stage, units: int, reports: Iterable[UnitReport]) -> Iterator[tuple[int, int]]:
    """Yield the bytes that each upstream unit has sent to each unit of a stage, including the newest round."""
    for report in reports:
        for unit in range(units):
            if size := report.totals.flow.sent_bytes.get(f"{stage.topic}[{unit}]"):
                yield unit, size
