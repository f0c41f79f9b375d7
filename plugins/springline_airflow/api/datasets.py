"""Datasets over HTTP: the details of one dataset, and actions on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from pydantic import Field, StringConstraints

from springline.airflow.api.access import ReadAccess, ReadAccessDep
from springline.airflow.api.request_fields import RequestBody
from springline.airflow.lineage.access_filter import (
    mentioned_refs,
    redact_hidden,
    remove_names,
    replace_texts,
    texts_of,
)
from springline.airflow.lineage.dataset_detail import DatasetDetail, build_detail
from springline.airflow.lineage.headline import headline_of
from springline.airflow.lineage.possible_actions import possible_actions
from springline.airflow.operators.recover import DAG_ID as RECOVER
from springline.persistence.actions import DatasetAction, apply_decision, decide_action
from springline.persistence.decisions.recovery import plan_recovery
from springline.persistence.explain import build_explanation, find_dataset
from springline.persistence.model.dataset import Dataset
from springline.persistence.platform import Platform

MOST_GENERATIONS = 999_999_999  # of a path; the catalog's integer column can store more

router = APIRouter(tags=["datasets"])
Name = Annotated[str, StringConstraints(pattern=r"^[^\x00]{0,1000}$")]  # no database accepts a NUL character


def current_platform(request: Request) -> Platform:
    """Return the platform that the app keeps open."""
    platform: Platform = request.app.state.platforms.now()
    return platform


PlatformDep = Annotated[Platform, Depends(current_platform)]


class ActionRequest(RequestBody):
    """The generation to act on, the newest if none is given; `dry_run`: only report what would be done."""

    generation: int | None = Field(None, ge=1, le=MOST_GENERATIONS)
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ActionResult:
    """Result of an action: whether it was `allowed`, and whether it was `executed` (never in a dry run)."""

    path: str
    generation: int
    action: DatasetAction
    allowed: bool
    executed: bool
    message: str


def name_redactor(platform: Platform, read_access: ReadAccess, texts: Iterable[str]) -> Callable[[str], str]:
    """Return a function that removes the names of datasets that the user may not read from any of `texts`."""
    hidden = [
        each.ref for each in platform.catalog.find_existing(mentioned_refs(texts)) if not read_access.may_read(each)
    ]
    return partial(remove_names, hidden=hidden)


@router.get("/datasets/{path:path}")
def dataset(
    path: str,
    read_access: ReadAccessDep,
    platform: PlatformDep,
    generation: Annotated[int | None, Query(ge=1, le=MOST_GENERATIONS, description="Default: the newest")] = None,
) -> DatasetDetail:
    """Return all details of one generation of a dataset."""
    catalog = platform.catalog
    target_dataset = find_dataset(platform, path, generation)
    read_access.require_read(target_dataset)
    away = platform.watch.unavailable_reason()
    readable_lineage = redact_hidden(catalog.lineage_around([target_dataset.ref]), read_access.may_read)
    reachable_lineage = (
        redact_hidden(
            catalog.lineage_around([target_dataset.ref], down=False, ignore_under_store=True), read_access.may_read
        )
        if away
        else readable_lineage
    )
    explanation = build_explanation(
        platform,
        readable_lineage.datasets[target_dataset.ref],
        readable_lineage,
        reachable_lineage=reachable_lineage,
        unavailable_reason=away,
    )
    explanation = replace_texts(explanation, name_redactor(platform, read_access, texts_of(explanation)))
    costs = catalog.load_cost_model(readable_lineage)
    return build_detail(
        explanation,
        headline=headline_of(explanation, plan_recovery(reachable_lineage, [target_dataset.ref], costs)),
        generations=catalog.find(path=path),
        sources=catalog.get_all(target_dataset.sources),
        dependents=catalog.find_children(target_dataset.ref),
        may_read=read_access.may_read,
        actions=possible_actions(
            explanation.dataset,
            reachable_lineage,
            costs,
            obstacles=explanation.recompute_obstacles,
            unavailable_reason=explanation.unavailable_reason,
        ),
        refused=refused_actions(read_access, target_dataset),
    )


def refused_actions(read_access: ReadAccess, dataset: Dataset) -> dict[str, str]:
    """Return the actions that the user may not perform, each with the reason."""
    change_refusal = read_access.change_refusal(dataset)
    reasons = {
        **dict.fromkeys(map(str, DatasetAction), change_refusal),
        "recover": change_refusal or read_access.trigger_refusal(RECOVER),
    }
    return {action: reason for action, reason in reasons.items() if reason}


@router.post("/datasets/{path:path}/{action}")
def run_action(
    path: str, action: DatasetAction, body: ActionRequest, read_access: ReadAccessDep, platform: PlatformDep
) -> ActionResult:
    """Persist a dataset first, pin or unpin it, evict it from the cache, or mark or unmark it as checkpoint."""
    target_dataset = find_dataset(platform, path, body.generation)
    read_access.require_change(target_dataset)
    readable_lineage = redact_hidden(
        platform.catalog.lineage_around([target_dataset.ref], down=False), read_access.may_read
    )
    irrecoverable_reasons = (
        readable_lineage.recompute_obstacles(target_dataset.ref) if read_access.may_read(target_dataset) else ()
    )
    is_locked = target_dataset.ref in platform.catalog.refs_being_read()
    retention_reason = (
        platform.replacement.retention_reason(target_dataset)
        if action is DatasetAction.EVICT and target_dataset.persisted
        else ""
    )
    decision = decide_action(
        target_dataset,
        action,
        has_readers=is_locked,
        recompute_obstacles=irrecoverable_reasons,
        eviction_blocker=retention_reason,
    )
    if not body.dry_run:
        apply_decision(platform, decision, read_access.user.get_name())
    return ActionResult(
        path, target_dataset.ref.generation, action, decision.allowed, not body.dry_run, decision.message
    )
