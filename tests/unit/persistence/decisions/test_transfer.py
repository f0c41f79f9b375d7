"""The paper's transfer table, row by row."""

from dataclasses import replace

import pytest

from springline.persistence.decisions.transfer import TransferPlan, plan_transfer
from springline.persistence.model.cost_model import CostModel, Measurement
from springline.persistence.model.dataset import CacheState, ExecutionSide, Operation, TransferMethod
from springline.persistence.model.lineage import Lineage
from tests.support.datasets.lineages import cached, evicted, lineage_of, persisted, ref

MB = 1_000_000


def costs(*, link: float = 0.1, operation: float = 0.01) -> CostModel:
    """Seconds a MB of the link, and of the operation on the storage side."""
    return CostModel([Measurement(MB, link)], {("op", ExecutionSide.STORAGE): [Measurement(MB, operation)]})


def clean(**fields: object) -> Lineage:
    """A 100 MB dataset made from a persisted one of the same size."""
    return lineage_of(
        persisted("raw", by=None, bytes=100 * MB), cached("clean", "raw", **{"bytes": 100 * MB, **fields})
    )


def plan(lineage: Lineage, measured: CostModel | None = None) -> TransferPlan:
    """The decision for `clean`, with everything up to 1 MB counted as small."""
    return plan_transfer(ref("clean"), lineage, measured or costs(), small_bytes=MB)


def test_without_a_recorded_operation_data_is_sent() -> None:
    """First row of the table."""
    transfer_plan = plan(clean(call=None))
    assert transfer_plan.method is TransferMethod.DATA
    assert "no operation is recorded" in transfer_plan.reason


def test_a_small_dataset_is_sent_as_data_though_its_operation_is_recorded() -> None:
    """Second row: up to the bound, the bound included."""
    assert plan(clean(bytes=MB)).method is TransferMethod.DATA
    assert "not more than 1 MB" in plan(clean(bytes=MB)).reason
    assert (
        plan_transfer(ref("clean"), clean(bytes=MB), costs(link=9), small_bytes=MB - 1).method
        is TransferMethod.OPERATION
    )


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (Operation("op", "v1", idempotent=False), "not idempotent"),
        (Operation("op", "v1", idempotent=True, nondeterministic=True), "another digest"),
        (Operation("op", "v1", idempotent=True, runnable=False), "no longer exists"),
    ],
)
def test_a_large_dataset_of_an_operation_that_may_not_be_relied_on_is_sent_as_data(
    operation: Operation, reason: str
) -> None:
    """Third row; an nondeterministic operation and one whose code is gone count as not idempotent."""
    lineage = clean()
    transfer_plan = plan(Lineage(lineage.datasets, {("op", "v1"): operation}))
    assert transfer_plan.method is TransferMethod.DATA
    assert reason in transfer_plan.reason


def test_a_large_dataset_of_an_idempotent_operation_goes_as_the_operation() -> None:
    """Fourth row: its sources are persisted and running it beside the under-store is quicker."""
    transfer_plan = plan(clean())
    assert transfer_plan.method is TransferMethod.OPERATION
    assert transfer_plan.predicted == transfer_plan.operation
    assert transfer_plan.data is not None and transfer_plan.data.seconds == pytest.approx(10.0)
    assert transfer_plan.reason == (
        "operation: running op next to the under-store is predicted to take 1 s, sending 100 MB 10 s"
    )


def test_the_operation_is_not_sent_before_its_sources_are_persisted() -> None:
    """The storage side runs on its own copies, so one missing copy decides for data, and is named."""
    lineage = clean().with_changes(cached("raw", by=None, bytes=100 * MB))
    transfer_plan = plan(lineage)
    assert transfer_plan.method is TransferMethod.DATA
    assert "raw@1 is not persisted" in transfer_plan.reason
    assert transfer_plan.waits_for == ()


def test_the_operation_is_not_sent_if_it_takes_as_long_as_the_data() -> None:
    """Less means less: a tie goes to data."""
    transfer_plan = plan(clean(), costs(link=0.1, operation=0.1))
    assert transfer_plan.method is TransferMethod.DATA
    assert transfer_plan.predicted == transfer_plan.data


def test_what_was_never_measured_is_sent_as_data() -> None:
    """Neither an unmeasured operation nor an unmeasured link is guessed."""
    link = [Measurement(MB, 0.1)]
    assert "no run of op has been measured" in plan(clean(), CostModel(link)).reason
    storage = {("op", ExecutionSide.STORAGE): [Measurement(MB, 0.1)]}
    assert "the link has not been measured" in plan(clean(), CostModel(compute=storage)).reason


def test_an_evicted_dataset_goes_as_its_operation_whatever_its_size_and_speed() -> None:
    """There are no bytes to send."""
    lineage = clean(bytes=10, cache=CacheState.EVICTED)
    transfer_plan = plan(lineage, costs(operation=99))
    assert transfer_plan.method is TransferMethod.OPERATION
    assert transfer_plan.waits_for == ()
    assert "its bytes are evicted" in transfer_plan.reason


def test_an_evicted_dataset_waits_for_sources_that_are_nowhere() -> None:
    """A source in the cache or in the under-store will do; one that is in neither is waited for."""
    lineage = lineage_of(
        persisted("a", by=None), cached("b", "a"), evicted("c", "a"), evicted("clean", "a", "b", "c", bytes=100 * MB)
    )
    transfer_plan = plan(lineage)
    assert transfer_plan.method is TransferMethod.OPERATION
    assert transfer_plan.waits_for == (ref("c"),)
    assert transfer_plan.reason.endswith("waits for c@1")


def test_a_lost_dataset_that_cannot_be_made_again_waits_for_itself() -> None:
    """Its data has to be recovered before it can be sent."""
    transfer_plan = plan(clean(call=None, cache=CacheState.LOST))
    assert transfer_plan.waits_for == (ref("clean"),)
    assert "restore it first" in transfer_plan.reason


def test_both_candidates_are_shown_whatever_is_chosen() -> None:
    """`explain` can say what the other would have taken."""
    transfer_plan = plan(clean(), costs(link=0.01, operation=0.1))
    assert transfer_plan.method is TransferMethod.DATA
    assert transfer_plan.data is not None and transfer_plan.operation is not None
    assert transfer_plan.data.seconds < transfer_plan.operation.seconds


def test_the_operation_is_measured_by_the_bytes_of_its_sources() -> None:
    """A filter that keeps little still reads all."""
    lineage = clean().with_changes(persisted("raw", by=None, bytes=500 * MB))
    transfer_plan = plan_transfer(ref("clean"), lineage, costs(), small_bytes=MB)
    assert transfer_plan.operation is not None and transfer_plan.operation.seconds == pytest.approx(5.0)
    assert replace(transfer_plan.operation, summary="") == replace(
        transfer_plan.predicted or transfer_plan.operation, summary=""
    )
