"""Transfer method: the data is sent to the under-store, or the operation that makes it (the paper's table)."""

from __future__ import annotations

from dataclasses import dataclass

from springline.persistence.model.cost_model import CostModel, Prediction
from springline.persistence.model.dataset import Dataset, ExecutionSide, Ref, TransferMethod
from springline.persistence.model.lineage import Lineage
from springline.persistence.text.formatting import format_bytes, format_list, format_seconds


@dataclass(frozen=True)
class TransferPlan:
    """The method chosen for `ref`, its predicted duration, and the predictions of both methods.

    `waits_for`: what has to be available before the transfer can begin; empty: it can begin now.
    """

    ref: Ref
    method: TransferMethod
    predicted: Prediction | None
    data: Prediction | None
    operation: Prediction | None
    waits_for: tuple[Ref, ...]
    reason: str


def plan_transfer(ref: Ref, lineage: Lineage, costs: CostModel, *, small_bytes: int) -> TransferPlan:
    """Choose data or operation for `ref`.

    The operation is sent if it is repeatable, its output is larger than `small_bytes`, all its sources are
    persisted, and it is predicted to take less time on the storage side than the data on the link. A generation that
    is no longer in the cache can only be sent as its operation.
    """
    dataset = lineage.datasets[ref]
    data = costs.predict_transfer(dataset.bytes)
    operation = None
    if dataset.call:
        operation = costs.predict_run(dataset.call.name, ExecutionSide.STORAGE, lineage.source_bytes(ref))
    if not dataset.in_cache:
        return _plan_without_cached_bytes(dataset, lineage, data, operation)
    objection = _operation_objection(dataset, lineage, data, operation, small_bytes)
    if objection:
        reason = f"data: {objection}{_format_prediction(data)}"
        return TransferPlan(ref, TransferMethod.DATA, data, data, operation, (), reason)
    assert data is not None and operation is not None and dataset.call is not None  # ensured by _operation_objection
    reason = (
        f"operation: running {dataset.call.name} next to the under-store is predicted to take "
        f"{format_seconds(operation.seconds)}, sending {format_bytes(dataset.bytes)} {format_seconds(data.seconds)}"
    )
    return TransferPlan(ref, TransferMethod.OPERATION, operation, data, operation, (), reason)


def _operation_objection(
    dataset: Dataset, lineage: Lineage, data: Prediction | None, operation: Prediction | None, small_bytes: int
) -> str:
    """Return the first row of the table that requires sending the data; empty if none does."""
    if dataset.call is None:
        return "no operation is recorded for it"
    if dataset.bytes <= small_bytes:
        return (
            f"{format_bytes(dataset.bytes)} is not more than {format_bytes(small_bytes)}, the limit for small datasets"
        )
    if reason := lineage.repeat_obstacle(dataset.ref):
        return reason
    if absent := [s for s in dataset.sources if s not in lineage.datasets or not lineage.datasets[s].persisted]:
        verb = "is" if len(absent) == 1 else "are"
        return f"{dataset.call.name} cannot run next to the under-store yet: {format_list(absent)} {verb} not persisted"
    if operation is None:
        return f"no run of {dataset.call.name} has been measured yet"
    if data is None:
        return "the link has not been measured yet"
    if operation.seconds >= data.seconds:
        duration = format_seconds(operation.seconds)
        return f"running {dataset.call.name} next to the under-store would take {duration}, which is not faster"
    return ""


def _plan_without_cached_bytes(
    dataset: Dataset, lineage: Lineage, data: Prediction | None, operation: Prediction | None
) -> TransferPlan:
    """Plan a transfer without cached bytes: the operation makes them, as soon as its sources can be read."""
    ref = dataset.ref
    reason = lineage.repeat_obstacle(ref)
    if reason or dataset.call is None:
        summary = f"data: {reason}, and its bytes are {dataset.cache.value}: restore it first"
        return TransferPlan(ref, TransferMethod.DATA, data, data, operation, (ref,), summary)
    waits_for = tuple(s for s in dataset.sources if s not in lineage.datasets or not lineage.datasets[s].available)
    summary = (
        f"operation: its bytes are {dataset.cache.value}, so {dataset.call.name} "
        f"recomputes them{_format_prediction(operation)}"
    )
    if waits_for:
        summary += f"; waits for {format_list(waits_for)}"
    return TransferPlan(ref, TransferMethod.OPERATION, operation, data, operation, waits_for, summary)


def _format_prediction(predicted: Prediction | None) -> str:
    return f" ({predicted.summary})" if predicted else " (not measured yet)"
