"""Datasets over HTTP: the queue, the data at risk, and the details of one dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import APIRouter, Depends, Query, Request
from pydantic import Field, StringConstraints

from springline.airflow.api.access import ReadAccess, ReadAccessDep
from springline.airflow.api.persister import no_claim_reason
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
from springline.airflow.lineage.queue import QueueEntry, queue_entries
from springline.airflow.lineage.risks import Risks, risks_of, sum_risk
from springline.airflow.operators.recover import DAG_ID as RECOVER
from springline.persistence.actions import DatasetAction, apply_decision, decide_action, decide_recovery
from springline.persistence.catalog.risk_samples import RiskSample
from springline.persistence.catalog.wait_report import explain_waits, load_wait_report
from springline.persistence.decisions import queue_plan
from springline.persistence.decisions.recovery import plan_recovery
from springline.persistence.explain import Explanation, build_explanation, find_dataset
from springline.persistence.extensions import POLICIES
from springline.persistence.model.cost_model import CostModel
from springline.persistence.model.dataset import Dataset
from springline.persistence.model.lineage import Lineage
from springline.persistence.platform import Platform
from springline.persistence.policies import load_policy

_MOST_NAMED = 500

MOST_GENERATIONS = 999_999_999  # of a path; the catalog's integer column can store more

router = APIRouter(tags=["datasets"])
Name = Annotated[str, StringConstraints(pattern=r"^[^\x00]{0,1000}$")]  # no database accepts a NUL character


def current_platform(request: Request) -> Platform:
    """Return the platform that the app keeps open."""
    platform: Platform = request.app.state.platforms.now()
    return platform


PlatformDep = Annotated[Platform, Depends(current_platform)]


@dataclass(frozen=True, slots=True)
class QueueListing:
    """The queue under a policy; `depth` counts all queued datasets, including those that you may not read.

    `under_store_away`: why nothing can be transferred now; empty if the under-store responds. `oldest_seconds`: how
    long the oldest dataset that could be persisted now has waited. `wait_reason`: why datasets are waiting.
    """

    policy: str
    applied: bool  # the policy is the one in use, not a what-if
    policies: Sequence[str]  # names of all installed policies
    depth: int
    under_store_away: str
    oldest_seconds: float | None
    wait_reason: str
    entries: Sequence[QueueEntry]


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


def _name_redactor(platform: Platform, read_access: ReadAccess, texts: Iterable[str]) -> Callable[[str], str]:
    """Return a function that removes the names of datasets that the user may not read from any of `texts`."""
    hidden = [
        each.ref for each in platform.catalog.find_existing(mentioned_refs(texts)) if not read_access.may_read(each)
    ]
    return partial(remove_names, hidden=hidden)


@router.get("/queue")
def queue(
    read_access: ReadAccessDep,
    platform: PlatformDep,
    session: SessionDep,
    policy: Annotated[str | None, Query(description="Policy to simulate; default: the policy in use")] = None,
    limit: Annotated[
        int, Query(ge=1, le=_MOST_NAMED, description="Maximum number of entries from the head of the queue")
    ] = 20,
) -> QueueListing:
    """Return what is persisted next and why, of the datasets that you may read; positions count the whole queue."""
    catalog = platform.catalog
    refs = frozenset(platform.claims.list_claimable(10 * limit))
    full_lineage = catalog.lineage_around(refs)
    readable_lineage = redact_hidden(full_lineage, read_access.may_read)
    waiting = [
        redacted_ref
        for ref, redacted_ref in zip(full_lineage.datasets, readable_lineage.datasets, strict=True)
        if ref in refs
    ]
    queue_policy, now = load_policy(platform.settings, policy or ""), catalog.now()
    planned_transfers = queue_plan.plan_queue(
        waiting,
        readable_lineage,
        catalog.load_cost_model(full_lineage),
        queue_policy,
        small_bytes=platform.settings.min_operation_bytes,
        now=now,
    )[:limit]
    applied = queue_policy.name == platform.settings.policy
    rows = queue_entries(planned_transfers, readable_lineage, now)
    waits = load_wait_report(catalog)
    wait_reason = explain_waits(waits, partial(no_claim_reason, session))
    redact_names = _name_redactor(platform, read_access, [wait_reason, *(row.last_error for row in rows)])
    rows = [replace(row, last_error=redact_names(row.last_error)) for row in rows]
    away = platform.watch.unavailable_reason()
    installed = POLICIES.names
    depth = platform.claims.depth()
    return QueueListing(
        queue_policy.name, applied, installed, depth, away, waits.oldest_wait_seconds, redact_names(wait_reason), rows
    )


@router.get("/at-risk")
def at_risk(
    read_access: ReadAccessDep,
    platform: PlatformDep,
    limit: Annotated[
        int, Query(ge=1, le=_MOST_NAMED, description="Maximum number of datasets to list, worst first")
    ] = 100,
) -> Risks:
    """Return what you may read and would be lost, or have to be recomputed, if the cache were lost now."""
    catalog = platform.catalog
    away = platform.watch.unavailable_reason()
    loss = catalog.cache_loss(ignore_under_store=bool(away))
    costs = catalog.load_cost_model_of(loss.unmeasured_operations)
    risk_totals = sum_risk(loss, costs, read_access.may_read_dag, limit=limit)
    return risks_of(
        risk_totals,
        loss,
        costs,
        redact_hidden(catalog.lineage_without_sources(risk_totals.named_keys(loss)), read_access.may_read),
        away,
    )


@router.get("/at-risk/history")
def at_risk_history(
    read_access: ReadAccessDep,
    platform: PlatformDep,
    since: Annotated[float, Query(ge=0, le=1e11, description="Start of the history, in seconds since 1970")] = 0.0,
) -> list[RiskSample]:
    """Return what a loss of the cache would have cost, over time: at most one sample per minute, the newest last.

    Users get the shares of the DAGs that they may read, summed up, so that no dataset is named. Only users who may
    read every DAG get the whole, including data that no DAG wrote.
    """
    catalog = platform.catalog
    return catalog.risk_since(since, dag_ids=read_access.readable_dags(catalog.risk_dag_ids()))


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
    explanation = replace_texts(explanation, _name_redactor(platform, read_access, texts_of(explanation)))
    costs = catalog.load_cost_model(readable_lineage)
    return build_detail(
        explanation,
        headline=headline_of(explanation, plan_recovery(reachable_lineage, [target_dataset.ref], costs)),
        generations=catalog.find(path=path),
        sources=catalog.get_all(target_dataset.sources),
        dependents=catalog.find_children(target_dataset.ref),
        may_read=read_access.may_read,
        actions=_possible_actions(explanation, reachable_lineage, costs),
        refused=_refusals(read_access, target_dataset),
    )


def _possible_actions(explanation: Explanation, lineage: Lineage, costs: CostModel) -> list[str]:
    """Return the actions that the state of a generation allows, as far as that is known without asking its readers."""
    dataset, obstacles = explanation.dataset, explanation.recompute_obstacles
    decisions = [
        decide_action(dataset, action, recompute_obstacles=obstacles, eviction_blocker=explanation.unavailable_reason)
        for action in DatasetAction
    ]
    recovery = ["recover"] if decide_recovery(dataset.ref, lineage, costs).allowed else []
    return [*recovery, *(decision.action.value for decision in decisions if decision.allowed)]


def _refusals(read_access: ReadAccess, dataset: Dataset) -> dict[str, str]:
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
