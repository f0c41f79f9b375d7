"""Datasets over HTTP: their lineage as a picture, the queue, what is at risk, and everything about one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import APIRouter, Depends, Query, Request
from pydantic import Field, StringConstraints

from springline.airflow.api.access import Reading, ReadingDep
from springline.airflow.api.persister import why_none_claims
from springline.airflow.api.request_fields import RequestBody
from springline.airflow.lineage.access_filter import (
    mentioned,
    texts_of,
    veiled,
    with_texts,
    without_hidden,
    without_names,
)
from springline.airflow.lineage.dataset_detail import About, about
from springline.airflow.lineage.graph import Edge, Node, draw, with_operations
from springline.airflow.lineage.grouping import Fold, folded, suitable
from springline.airflow.lineage.layers import laid_out
from springline.airflow.lineage.queue import Waiting, rows_of
from springline.airflow.lineage.risks import Risks, risks_of, weigh
from springline.airflow.operators.recover import DAG_ID as RECOVER
from springline.airflow.runs import names_of
from springline.persistence.actions import Wish, carry_out, decide
from springline.persistence.catalog.risk_samples import Sample
from springline.persistence.catalog.waits import say_waits, waits_of
from springline.persistence.decisions import queue_plan
from springline.persistence.explain import explanation_of, find
from springline.persistence.extensions import POLICIES
from springline.persistence.model.dataset import Dataset, Origin
from springline.persistence.platform import Platform
from springline.persistence.policies import policy_of

_MOST_DRAWN = 2000
_DRAWN = 500  # unless more are asked for
_MOST_NAMED = 500

_MOST_GENERATIONS = 999_999_999  # of a path; what the catalog counts in holds more

router = APIRouter(tags=["datasets"])
Name = Annotated[str, StringConstraints(pattern=r"^[^\x00]{0,1000}$")]  # no database takes a zero


def platform_now(request: Request) -> Platform:
    """The platform that the app keeps open."""
    platform: Platform = request.app.state.platforms.now()
    return platform


PlatformDep = Annotated[Platform, Depends(platform_now)]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of the lineage; `whole`: nothing that fits the question was left out for its number."""

    fold: Fold
    whole: bool
    nodes: Sequence[Node]
    edges: Sequence[Edge]


@dataclass(frozen=True, slots=True)
class Queued:
    """The queue under a policy, and how many wait in all, those included that you may not read.

    `under_store_away`: why nothing can be sent now; empty if the under-store answers.
    `oldest_seconds` is how long the oldest has waited that could be persisted now, `because` why anything waits.
    """

    policy: str
    applied: bool  # the policy is the one in use, not a what-if
    policies: Sequence[str]  # that are installed, by name
    depth: int
    under_store_away: str
    oldest_seconds: float | None
    because: str
    waiting: Sequence[Waiting]


class Asked(RequestBody):
    """Which generation is meant, the newest if none is given; `dry_run`: only tell what would be done."""

    generation: int | None = Field(None, ge=1, le=_MOST_GENERATIONS)
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Granted:
    """What a wish came to: `allowed`, and if so `done`, unless it was a dry run."""

    path: str
    generation: int
    wish: Wish
    allowed: bool
    done: bool
    words: str


def _unnaming(platform: Platform, reading: Reading, texts: Iterable[str]) -> Callable[[str], str]:
    """What takes the names that may not be read out of one of `texts`."""
    hidden = [each.ref for each in platform.catalog.known(mentioned(texts)) if not reading.may(each)]
    return partial(without_names, hidden=hidden)


@router.get("/lineage")
def lineage(
    reading: ReadingDep,
    platform: PlatformDep,
    prefix: Annotated[Name, Query(description="Only paths that begin so")] = "",
    dag_id: Name = "",
    run_id: Name = "",
    task_id: Name = "",
    fold: Annotated[Fold | None, Query(description="What becomes one node; none given: what suits the number")] = None,
    most: Annotated[int, Query(ge=1, le=_MOST_DRAWN, description="So many datasets, the newest")] = _DRAWN,
) -> Picture:
    """The datasets that you may read, how each came from others, and what would bring it back."""
    catalog = platform.catalog
    around, found = catalog.lineage_of(
        prefix=prefix,
        origin=Origin(dag_id, task_id=task_id),
        live=True,
        superseded=False,
        dag_ids=reading.dags(catalog.dag_ids()),
        run_ids=names_of(run_id) if run_id else None,
        limit=most,
    )
    graph = without_hidden(draw(veiled(around, reading.may)))
    chosen = fold or suitable(graph)
    drawn = with_operations(graph) if chosen is Fold.NONE else folded(graph, chosen)
    placed = laid_out(drawn)
    return Picture(chosen, found < most, placed.nodes, placed.edges)


@router.get("/queue")
def queue(
    reading: ReadingDep,
    platform: PlatformDep,
    session: SessionDep,
    policy: Annotated[str | None, Query(description="What if this were the policy; none given: it is")] = None,
    most: Annotated[int, Query(ge=1, le=_MOST_NAMED, description="So many, of the first")] = 20,
) -> Queued:
    """What is persisted next and why, of what you may read; turns are counted over all that waits."""
    catalog = platform.catalog
    refs = frozenset(platform.claims.waiting(10 * most))
    true = catalog.lineage_around(refs)
    seen = veiled(true, reading.may)
    waiting = [as_seen for ref, as_seen in zip(true.datasets, seen.datasets, strict=True) if ref in refs]
    chosen, now = policy_of(platform.settings, policy or ""), catalog.now()
    planned = queue_plan.plan_queue(
        waiting, seen, catalog.costs(true), chosen, small_bytes=platform.settings.small_bytes, now=now
    )[:most]
    applied = chosen.name == platform.settings.policy
    rows = rows_of(planned, seen, now)
    waits = waits_of(catalog)
    because = say_waits(waits, partial(why_none_claims, session))
    unnamed = _unnaming(platform, reading, [because, *(row.last_error for row in rows)])
    rows = [replace(row, last_error=unnamed(row.last_error)) for row in rows]
    away = platform.watch.why_away()
    installed = POLICIES.names
    depth = platform.claims.depth()
    return Queued(chosen.name, applied, installed, depth, away, waits.oldest, unnamed(because), rows)


@router.get("/at-risk")
def at_risk(
    reading: ReadingDep,
    platform: PlatformDep,
    most: Annotated[int, Query(ge=1, le=_MOST_NAMED, description="So many by name: the worst")] = 100,
) -> Risks:
    """What you may read and would have to do without, or make again, if the cache were lost now."""
    catalog = platform.catalog
    away = platform.watch.why_away()
    loss = catalog.loss_of_cache(away=bool(away))
    costs = catalog.costs_of(loss.unmeasured)
    weighed = weigh(loss, costs, reading.may_dag, most=most)
    return risks_of(weighed, loss, costs, veiled(catalog.alone(weighed.named(loss)), reading.may), away)


@router.get("/at-risk/history")
def at_risk_history(
    reading: ReadingDep,
    platform: PlatformDep,
    since: Annotated[float, Query(ge=0, le=1e11, description="Seconds since 1970; nothing older is told")] = 0.0,
) -> list[Sample]:
    """What a loss of the cache would have cost, over time, the newest last: a sample a minute at most.

    Whoever may read a DAG is told the share of what it made; the shares are added up, so that no name is told. Only who
    may read every DAG sees all, and what no DAG made.
    """
    catalog = platform.catalog
    return catalog.risk_since(since, dag_ids=reading.dags(catalog.risk_dag_ids()))


@router.get("/datasets/{path:path}")
def dataset(
    path: str,
    reading: ReadingDep,
    platform: PlatformDep,
    generation: Annotated[int | None, Query(ge=1, le=_MOST_GENERATIONS, description="None given: the newest")] = None,
) -> About:
    """Everything about one generation of a dataset."""
    catalog = platform.catalog
    chosen = find(platform, path, generation)
    reading.require(chosen)
    away = platform.watch.why_away()
    seen = veiled(catalog.lineage_around([chosen.ref]), reading.may)
    bare = veiled(catalog.lineage_around([chosen.ref], down=False, away=True), reading.may) if away else seen
    told = explanation_of(platform, seen.datasets[chosen.ref], seen, bare=bare, away=away)
    return about(
        with_texts(told, _unnaming(platform, reading, texts_of(told))),
        generations=catalog.find(path=path),
        sources=catalog.get_all(chosen.sources),
        dependents=catalog.made_from(chosen.ref),
        reads=reading.may,
        refused=_refused(reading, chosen),
    )


def _refused(reading: Reading, dataset: Dataset) -> dict[str, str]:
    """The wishes that the user may not have, each with the reason."""
    change = reading.why_no_change(dataset)
    reasons = {**dict.fromkeys(map(str, Wish), change), "recover": change or reading.why_no_trigger(RECOVER)}
    return {wish: reason for wish, reason in reasons.items() if reason}


@router.post("/datasets/{path:path}/{wish}")
def wish(path: str, wish: Wish, asked: Asked, reading: ReadingDep, platform: PlatformDep) -> Granted:
    """Persist a dataset before all else, pin or unpin it, let it go from the cache, mark or unmark it as checkpoint."""
    chosen = find(platform, path, asked.generation)
    reading.require_change(chosen)
    around = veiled(platform.catalog.lineage_around([chosen.ref], down=False), reading.may)
    why_gone = around.why_not_recomputable(chosen.ref) if reading.may(chosen) else ()
    held = chosen.ref in platform.catalog.held_refs()
    why_stays = platform.replacement.why_it_stays(chosen) if wish is Wish.EVICT and chosen.persisted else ""
    decision = decide(chosen, wish, held=held, why_gone=why_gone, why_stays=why_stays)
    if not asked.dry_run:
        carry_out(platform, decision, reading.user.get_name())
    return Granted(path, chosen.ref.generation, wish, decision.allowed, not asked.dry_run, decision.words)
