"""The lineage over HTTP: templates with the states of their partitions, one generation with its chain, and recovery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import APIRouter, HTTPException, Query, Request, status
from pydantic import Field

from springline.airflow.api import dag_runs
from springline.airflow.api.access import ReadAccess, ReadAccessDep
from springline.airflow.api.datasets import Name, PlatformDep, refused_actions
from springline.airflow.api.request_fields import RequestBody
from springline.airflow.lineage.access_filter import redact_hidden
from springline.airflow.lineage.cell import CellDetail, describe_cell
from springline.airflow.lineage.grouping import Grouping
from springline.airflow.lineage.live_index import LiveIndex
from springline.airflow.lineage.overview import LineageOverview, StreamNode, build_overview
from springline.airflow.lineage.template_graph import LineageFilter
from springline.airflow.operators.recover import DAG_ID as RECOVER
from springline.airflow.runs import names_of
from springline.persistence.decisions.recovery import plan_recovery
from springline.persistence.errors import TransitionError
from springline.persistence.model.dataset import DatasetStatus, Ref
from springline.persistence.model.path_partition import PathPartition
from springline.persistence.text.formatting import format_seconds

_MAX_RECOVERED = 500  # datasets of one request
_MAX_VALUES = 20

router = APIRouter(tags=["lineage"], prefix="/lineage")
Partition = Annotated[str, Query(pattern=r"^[^\x00]{0,1000}$")]


class RecoverRequest(RequestBody):
    """Which lost datasets to restore: of these partitions, of these templates (empty: of all).

    `dry_run`: only report what would be done.
    """

    partitions: list[Annotated[str, Field(max_length=1000)]] = Field(min_length=1, max_length=400)
    templates: list[Annotated[str, Field(max_length=2000)]] = Field(default_factory=list, max_length=1000)
    dag_id: str = Field("", max_length=1000)
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class RecoverResult:
    """What a request to restore lost datasets does: whether it was `allowed`, and `executed` (never in a dry run)."""

    datasets: Sequence[str]
    allowed: bool
    executed: bool
    message: str
    dag_id: str = ""
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class FilterValues:
    """Values that complete a text in a field of the filter, at most 20; the newest partitions and DAG runs first."""

    values: Sequence[str] = field(default_factory=list)


def current_index(request: Request, platform: PlatformDep) -> LiveIndex:
    """Return the index of the catalog, up to date."""
    index: LiveIndex = request.app.state.indexes.of(platform.catalog)
    return index


@router.get("")
def lineage(
    request: Request,
    read_access: ReadAccessDep,
    platform: PlatformDep,
    dag_id: Name = "",
    run_id: Name = "",
    task_id: Name = "",
    prefix: Annotated[Name, Query(description="Only paths with this prefix")] = "",
    state: Annotated[
        DatasetStatus | None, Query(description="Only templates with a dataset in this state, in these partitions")
    ] = None,
    first: Annotated[Partition, Query(description="First partition; default: the newest 60 are returned")] = "",
    last: Annotated[Partition, Query(description="Last partition; a day includes its hours")] = "",
    grouping: Annotated[
        Grouping | None, Query(description="What is collapsed into one node; default: by the number of templates")
    ] = None,
    expand: Annotated[
        Sequence[str], Query(description="Keys of groups that are not collapsed; `*`: none is", max_length=1000)
    ] = (),
) -> LineageOverview:
    """Return the path templates, the states of their partitions, and which template was made from which."""
    index = current_index(request, platform)
    filters = LineageFilter(
        dag_id, frozenset(names_of(run_id)) if run_id else frozenset(), task_id, prefix, state, first, last
    )
    streams = _streams(request, read_access, filters)
    return build_overview(index, filters, read_access.may_read_dag, grouping, expand, streams)


def _streams(request: Request, read_access: ReadAccess, filters: LineageFilter) -> Sequence[StreamNode]:
    """Return the stream jobs, unless the filter is about datasets, or streams are not installed."""
    is_about_datasets = not filters.is_by_dag_only or filters.status or filters.first or filters.last
    if is_about_datasets or not hasattr(request.app.state, "planners"):
        return ()
    from springline.airflow.api.stream_nodes import stream_nodes  # its packages are an extra

    return stream_nodes(read_access.user, filters.dag_id)


@router.get("/cell")
def cell(
    request: Request,
    read_access: ReadAccessDep,
    platform: PlatformDep,
    template: Annotated[str, Query(max_length=2000)] = "",
    partition: Partition = "",
    path: Annotated[Name, Query(description="Instead of a template and a partition: a dataset's path")] = "",
) -> CellDetail:
    """Return the generation of a template in a partition, and what would restore it if it is or were lost."""
    index = current_index(request, platform)
    with index.lock:
        place = index.place_of(path) if path else PathPartition(template, partition)
        entry = index.templates.get(place.template) if place else None
        key = entry.cells.get(place.partition) if place and entry else None
        row = index.rows[key] if key else None
    if place is None or row is None or not read_access.may_read_dag(row.dag_id):
        subject = path or f"{template} in {partition!r}"  # the same, whether there is none or it may not be read
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"{subject}: no live dataset that you may read")
    ref = Ref(row.path, row.generation)
    full_lineage = platform.catalog.lineage_around([ref], down=False)
    costs = platform.catalog.load_cost_model(full_lineage)
    refused = refused_actions(read_access, full_lineage.datasets[ref])
    return describe_cell(ref, place, redact_hidden(full_lineage, read_access.may_read), costs, index, refused)


@router.get("/values")
def values(
    request: Request,
    read_access: ReadAccessDep,
    platform: PlatformDep,
    name: Annotated[Literal["dag_id", "run_id", "task_id", "prefix", "partition"], Query(alias="field")],
    text: Annotated[str, Query(max_length=1000, description="A part of the value")] = "",
    dag_id: Name = "",
) -> FilterValues:
    """Return values of a field of the filter that contain a text."""
    index, needle = current_index(request, platform), text.casefold()
    matches: dict[str, None] = {}
    with index.lock:
        for key in reversed(index.rows):
            row = index.rows[key]
            if (dag_id and row.dag_id != dag_id) or not read_access.may_read_dag(row.dag_id):
                continue
            place = index.places[key]
            value = (
                place.partition if name == "partition"
                else place.template.partition("{")[0] if name == "prefix"
                else str(getattr(row, name)).partition("#")[0]
            )  # fmt: skip
            if value and needle in value.casefold():
                matches[value] = None
                if len(matches) == _MAX_VALUES:
                    break
    return FilterValues(list(matches))


@router.post("/recover")
def recover(
    body: RecoverRequest, request: Request, read_access: ReadAccessDep, platform: PlatformDep, session: SessionDep
) -> RecoverResult:
    """Restore the lost datasets of some partitions; requires permission to change their DAGs and to trigger `recover`.

    Those that cannot be restored, or that you may not change, are left out; the message says so.
    """
    read_access.require_trigger(RECOVER)
    refs, forbidden = _lost_refs(body, current_index(request, platform), read_access)
    full_lineage = platform.catalog.lineage_around(refs, down=False)
    plan = plan_recovery(
        redact_hidden(full_lineage, read_access.may_read), refs, platform.catalog.load_cost_model(full_lineage)
    )
    possible = [ref for ref in refs if ref not in plan.irrecoverable]
    message = _recovery_message(len(possible), plan.seconds, len(plan.steps), len(plan.irrecoverable), forbidden)
    refusal = "" if possible else message
    refusal = refusal or dag_runs.not_runnable_reason(RECOVER, session)
    names = [str(ref) for ref in possible]
    if body.dry_run:
        return RecoverResult(names, not refusal, False, refusal or message)
    if refusal:
        raise TransitionError(refusal)
    user_name = read_access.user.get_name()
    conf = {"datasets": names, "requested_by": user_name}
    run_id = dag_runs.start(RECOVER, conf, user_name, session, by_page="referer" in request.headers)
    catalog = platform.catalog.acting_as(user_name)
    for ref in possible:
        catalog.amend(ref, event="recovery_requested", reason=f"DAG run {run_id}")
    return RecoverResult(names, True, True, message, RECOVER, run_id)


def _lost_refs(body: RecoverRequest, index: LiveIndex, read_access: ReadAccess) -> tuple[list[Ref], int]:
    """Return the lost datasets that the user may change, and how many others there are that may be read."""
    partitions, templates = set(body.partitions), set(body.templates)
    refs, forbidden = [], 0
    with index.lock:
        for row in index.unavailable():
            place = index.places[row.id]
            if (
                place.partition not in partitions
                or (templates and place.template not in templates)
                or (body.dag_id and row.dag_id != body.dag_id)
                or not index.is_cell(row.id)
                or not read_access.may_read_dag(row.dag_id)
            ):
                continue
            if read_access.dag_change_refusal(row.dag_id):
                forbidden += 1
            else:
                refs.append(Ref(row.path, row.generation))
    return sorted(refs)[:_MAX_RECOVERED], forbidden


def _recovery_message(count: int, seconds: float, steps: int, irrecoverable: int, forbidden: int) -> str:
    parts = []
    if count:
        takes = f" in about {format_seconds(seconds)}" if seconds else ""
        parts.append(f"{_datasets(count)} will be restored{takes}, by {steps} step{'s' if steps > 1 else ''}")
    else:
        parts.append("nothing can be restored")
    if irrecoverable:
        parts.append(f"{_datasets(irrecoverable)} cannot be restored")
    if forbidden:
        parts.append(f"you may not change {_datasets(forbidden)}")
    return "; ".join(parts)


def _datasets(count: int) -> str:
    return f"{count} dataset{'' if count == 1 else 's'}"
