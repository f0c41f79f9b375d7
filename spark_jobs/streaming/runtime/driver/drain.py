"""Detects whether the stages of a job are drained: each unit has accepted all that its upstream units have sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from springline.spark_jobs.streaming.runtime.history import read_history
from springline.spark_jobs.streaming.runtime.message_log import MessageLog
from springline.spark_jobs.streaming.runtime.report import UnitReport
from springline.spark_jobs.streaming.runtime.report_log import StageReports
from springline.spark_jobs.streaming.runtime.rounds import OffsetBounds, RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.stamps import UpstreamPosition


def find_drained_plans(stages: Sequence[Stage], log: MessageLog) -> dict[str, RoundPlan] | None:
    """Return the current round of each stage, by name, if all are drained; None if they are not, or one has not run.

    The graph of stages may contain cycles.
    """
    plans: dict[str, RoundPlan] = {}
    reports: dict[str, dict[int, UnitReport]] = {}
    for stage in stages:
        stage_reports = StageReports(stage, log)
        stage_reports.catch_up()
        plan = _newest_settled(stage, log, stage_reports)
        if plan is None or plan.number == 0:
            return None
        plans[stage.name], reports[stage.name] = plan, stage_reports.newest
    for stage in stages:
        # Checked once all rounds are known, when their feedback is in the log.
        if stage.reads_feedback and not _has_read_all(plans[stage.name], log.offset_bounds(stage.topic)):
            return None
        for upstream in stages:
            if stage.topic in upstream.outlets and not _has_accepted_all(
                plans[stage.name], reports[stage.name], upstream, plans[upstream.name]
            ):
                return None
    return plans


def _newest_settled(stage: Stage, log: MessageLog, reports: StageReports) -> RoundPlan | None:
    """Return the newest complete round; None if a unit is ahead of it, or, without stamps, a later one is planned."""
    history = read_history(stage, log)
    plan = reports.newest_complete(history)
    if plan is None or (plan != history.last and not stage.stamped):
        return None
    is_ahead = any(report.round_id > plan.round_id for report in reports.newest.values())
    return None if is_ahead else plan


def _has_read_all(plan: RoundPlan, offset_bounds: Mapping[int, OffsetBounds]) -> bool:
    return all(bounds.high <= plan.ranges[partition][1] for partition, bounds in offset_bounds.items())


def _has_accepted_all(
    plan: RoundPlan, reports: Mapping[int, UnitReport], upstream: Stage, upstream_plan: RoundPlan
) -> bool:
    """Return whether every unit has accepted all messages of a round of the stage upstream, including its end."""
    for unit in range(plan.units):
        accepted = reports[unit].round.positions if unit in reports else {}
        positions = [accepted.get(upstream.sender(other), UpstreamPosition()) for other in range(upstream_plan.units)]
        if any(each.round != upstream_plan.number or not each.round_ended for each in positions):
            return False
    return True
