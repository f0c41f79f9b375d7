"""Whether the stages of a job are level: each unit has taken all that every unit upstream of it has sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from springline.spark_jobs.streaming.runtime.history import newest_complete, read_history
from springline.spark_jobs.streaming.runtime.message_log import Log
from springline.spark_jobs.streaming.runtime.rounds import Extent, Plan
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.stamps import Taken, taken_in


def level(stages: Sequence[Stage], log: Log) -> dict[str, Plan] | None:
    """The round at which each stage is, by name, where all are level; None where they are not, or one has not run.

    Stages may write to each other in circles.
    """
    plans: dict[str, Plan] = {}
    for stage in stages:
        plan = _newest(stage, log)
        if plan is None or plan.number == 0:
            return None
        plans[stage.name] = plan
    for stage in stages:
        # Looked at once all rounds are known: what they have told is there then.
        if stage.own and not _has_read_all(plans[stage.name], log.extents(stage.topic)):
            return None
        for upstream in stages:
            if stage.topic in upstream.outlets and not _has_taken(stage, plans[stage.name], upstream, plans):
                return None
    return plans


def _newest(stage: Stage, log: Log) -> Plan | None:
    """The newest round whose states are there; of a stage without stamps, only if no other one is planned."""
    history = read_history(stage, log)
    plan = newest_complete(stage, history)
    if plan is None or stage.stamped:
        return plan
    return plan if plan == history.last else None


def _has_read_all(plan: Plan, extents: Mapping[int, Extent]) -> bool:
    return all(extent.high <= plan.ranges[unit][1] for unit, extent in extents.items())


def _has_taken(stage: Stage, plan: Plan, upstream: Stage, plans: Mapping[str, Plan]) -> bool:
    """Whether every unit has taken all of a round of the stage upstream, to its end."""
    sent = plans[upstream.name]
    for unit in plan.ranges:
        notes = stage.versions(unit).notes(*plan.order) or {}
        told = taken_in(notes, f"{stage.id}, unit {unit}")
        taken = [told.get(upstream.sender(other), Taken()) for other in sent.ranges]
        if any(each.round != sent.number or not each.ended for each in taken):
            return False
    return True
