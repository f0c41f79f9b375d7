"""Detects whether the stages of a job are drained: each unit has accepted all that its upstream units have sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from springline.spark_jobs.streaming.runtime.history import newest_complete, read_history
from springline.spark_jobs.streaming.runtime.message_log import MessageLog
from springline.spark_jobs.streaming.runtime.rounds import OffsetBounds, RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.stamps import UpstreamPosition, upstream_positions


def find_drained_plans(stages: Sequence[Stage], log: MessageLog) -> dict[str, RoundPlan] | None:
    """Return the current round of each stage, by name, if all are drained; None if they are not, or one has not run.

    The graph of stages may contain cycles.
    """
    plans: dict[str, RoundPlan] = {}
    for stage in stages:
        plan = _newest_settled(stage, log)
        if plan is None or plan.number == 0:
            return None
        plans[stage.name] = plan
    for stage in stages:
        # Checked once all rounds are known, when their feedback is in the log.
        if stage.reads_feedback and not _has_read_all(plans[stage.name], log.offset_bounds(stage.topic)):
            return None
        for upstream in stages:
            if stage.topic in upstream.outlets and not _has_accepted_all(stage, plans[stage.name], upstream, plans):
                return None
    return plans


def _newest_settled(stage: Stage, log: MessageLog) -> RoundPlan | None:
    """Return the newest round whose states exist; for a stage without stamps, only if no later one is planned."""
    history = read_history(stage, log)
    plan = newest_complete(stage, history)
    if plan is None or stage.stamped:
        return plan
    return plan if plan == history.last else None


def _has_read_all(plan: RoundPlan, offset_bounds: Mapping[int, OffsetBounds]) -> bool:
    return all(bounds.high <= plan.ranges[unit][1] for unit, bounds in offset_bounds.items())


def _has_accepted_all(stage: Stage, plan: RoundPlan, upstream: Stage, plans: Mapping[str, RoundPlan]) -> bool:
    """Return whether every unit has accepted all messages of a round of the stage upstream, including its end."""
    upstream_plan = plans[upstream.name]
    for unit in plan.ranges:
        notes = stage.state_store(unit).notes(*plan.round_id) or {}
        accepted = upstream_positions(notes, f"{stage.id}, unit {unit}")
        positions = [accepted.get(upstream.sender(other), UpstreamPosition()) for other in upstream_plan.ranges]
        if any(each.round != upstream_plan.number or not each.round_ended for each in positions):
            return False
    return True
