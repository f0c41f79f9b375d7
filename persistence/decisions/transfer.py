"""The transfer strategy: is the data sent to the under-store, or the operation that makes it? (the paper's table)"""

from __future__ import annotations

from dataclasses import dataclass

from springline.persistence.model.cost_model import Costs, Prediction
from springline.persistence.model.dataset import Dataset, Method, Ref, Side
from springline.persistence.model.lineage import Lineage
from springline.persistence.text.formatting import say_bytes, say_list, say_seconds


@dataclass(frozen=True)
class TransferPlan:
    """What is sent for `ref`, what that is predicted to take, and both candidates.

    `waits_for`: what has to be at hand before the transfer can begin; empty: it can begin now.
    """

    ref: Ref
    method: Method
    predicted: Prediction | None
    data: Prediction | None
    operation: Prediction | None
    waits_for: tuple[Ref, ...]
    words: str


def decide(ref: Ref, lineage: Lineage, costs: Costs, *, small_bytes: int) -> TransferPlan:
    """Choose data or operation for `ref`.

    The operation is sent if it is repeatable, its output is larger than `small_bytes`, all its sources are
    persisted, and it is predicted to take less time on the storage side than the data on the link. What is
    no longer in the cache can only go as its operation.
    """
    dataset = lineage.datasets[ref]
    data = costs.send(dataset.bytes)
    operation = None
    if dataset.call:
        operation = costs.run(dataset.call.name, Side.STORAGE, lineage.source_bytes(ref))
    if not dataset.in_cache:
        return _without_bytes(dataset, lineage, data, operation)
    against = _against_operation(dataset, lineage, data, operation, small_bytes)
    if against:
        words = f"data: {against}{_takes(data)}"
        return TransferPlan(ref, Method.DATA, data, data, operation, (), words)
    assert data is not None and operation is not None and dataset.call is not None  # _against_operation saw to it
    words = (
        f"operation: running {dataset.call.name} beside the under-store is predicted to take "
        f"{say_seconds(operation.seconds)}, sending {say_bytes(dataset.bytes)} {say_seconds(data.seconds)}"
    )
    return TransferPlan(ref, Method.OPERATION, operation, data, operation, (), words)


def _against_operation(
    dataset: Dataset, lineage: Lineage, data: Prediction | None, operation: Prediction | None, small_bytes: int
) -> str:
    """The first row of the table that speaks for sending the data; empty if none does."""
    if dataset.call is None:
        return "no operation is recorded that made it"
    if dataset.bytes <= small_bytes:
        return f"{say_bytes(dataset.bytes)} is within the bound of {say_bytes(small_bytes)} for small ones"
    if reason := lineage.why_not_repeatable(dataset.ref):
        return reason
    if absent := [s for s in dataset.sources if s not in lineage.datasets or not lineage.datasets[s].persisted]:
        verb = "is" if len(absent) == 1 else "are"
        return f"{dataset.call.name} cannot run beside the under-store yet: {say_list(absent)} {verb} not persisted"
    if operation is None:
        return f"no run of {dataset.call.name} has been measured yet"
    if data is None:
        return "the link has not been measured yet"
    if operation.seconds >= data.seconds:
        took = say_seconds(operation.seconds)
        return f"running {dataset.call.name} beside the under-store would take {took}, which is not less"
    return ""


def _without_bytes(
    dataset: Dataset, lineage: Lineage, data: Prediction | None, operation: Prediction | None
) -> TransferPlan:
    """Its bytes are not in the cache: the operation makes them, as soon as its sources can be read."""
    ref = dataset.ref
    reason = lineage.why_not_repeatable(ref)
    if reason or dataset.call is None:
        words = f"data: {reason}, and its bytes are {dataset.cache.value}: it has to be recovered first"
        return TransferPlan(ref, Method.DATA, data, data, operation, (ref,), words)
    waits_for = tuple(s for s in dataset.sources if s not in lineage.datasets or not lineage.datasets[s].available)
    words = (
        f"operation: its bytes are {dataset.cache.value}, so {dataset.call.name} makes them again{_takes(operation)}"
    )
    if waits_for:
        words += f"; waits for {say_list(waits_for)}"
    return TransferPlan(ref, Method.OPERATION, operation, data, operation, waits_for, words)


def _takes(predicted: Prediction | None) -> str:
    return f" ({predicted.words})" if predicted else " (not measured yet)"
