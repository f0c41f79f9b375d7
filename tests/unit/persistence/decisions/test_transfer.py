"""The paper's transfer table, row by row."""

from dataclasses import replace

import pytest

from springline.persistence.decisions.transfer import TransferPlan, plan_transfer
from springline.persistence.model.cost_model import CostModel, Measurement
from springline.persistence.model.dataset import CacheState, ExecutionSide, Operation, TransferMethod
from springline.persistence.model.lineage import Lineage
from tests.support.datasets.lineages import evicted, lineage, made, persisted, ref

MB = 1_000_000


def costs(*, link: float = 0.1, operation: float = 0.01) -> CostModel:
    """Seconds a MB of the link, and of the operation on the storage side."""
    return CostModel([Measurement(MB, link)], {("op", ExecutionSide.STORAGE): [Measurement(MB, operation)]})


def clean(**fields: object) -> Lineage:
    """A 100 MB dataset made from a persisted one of the same size."""
    return lineage(persisted("raw", by=None, bytes=100 * MB), made("clean", "raw", **{"bytes": 100 * MB, **fields}))


def plan(known: Lineage, measured: CostModel | None = None) -> TransferPlan:
    """The decision for `clean`, with everything up to 1 MB counted as small."""
    return plan_transfer(ref("clean"), known, measured or costs(), small_bytes=MB)


def test_without_a_recorded_operation_data_is_sent() -> None:
    """First row of the table."""
    found = plan(clean(call=None))
    assert found.method is TransferMethod.DATA
    assert "no operation is recorded" in found.reason


def test_a_small_dataset_is_sent_as_data_though_its_operation_is_recorded() -> None:
    """Second row: up to the bound, the bound included."""
    assert plan(clean(bytes=MB)).method is TransferMethod.DATA
    assert "within the bound of 1 MB" in plan(clean(bytes=MB)).reason
    assert (
        plan_transfer(ref("clean"), clean(bytes=MB), costs(link=9), small_bytes=MB - 1).method
        is TransferMethod.OPERATION
    )


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (Operation("op", "v1", idempotent=False), "not idempotent"),
        (Operation("op", "v1", idempotent=True, nondeterministic=True), "another digest"),
        (Operation("op", "v1", idempotent=True, runnable=False), "no longer there"),
    ],
)
def test_a_large_dataset_of_an_operation_that_may_not_be_relied_on_is_sent_as_data(
    operation: Operation, reason: str
) -> None:
    """Third row; an nondeterministic operation and one whose code is gone count as not idempotent."""
    known = clean()
    found = plan(Lineage(known.datasets, {("op", "v1"): operation}))
    assert found.method is TransferMethod.DATA
    assert reason in found.reason


def test_a_large_dataset_of_an_idempotent_operation_goes_as_the_operation() -> None:
    """Fourth row: its sources are persisted and running it beside the under-store is quicker."""
    found = plan(clean())
    assert found.method is TransferMethod.OPERATION
    assert found.predicted == found.operation
    assert found.data is not None and found.data.seconds == pytest.approx(10.0)
    assert found.reason == (
        "operation: running op beside the under-store is predicted to take 1 s, sending 100 MB 10 s"
    )


def test_the_operation_is_not_sent_before_its_sources_are_persisted() -> None:
    """The storage side runs on its own copies, so one missing copy decides for data, and is named."""
    known = clean().with_changes(made("raw", by=None, bytes=100 * MB))
    found = plan(known)
    assert found.method is TransferMethod.DATA
    assert "raw@1 is not persisted" in found.reason
    assert found.waits_for == ()


def test_the_operation_is_not_sent_if_it_takes_as_long_as_the_data() -> None:
    """Less means less: a tie goes to data."""
    found = plan(clean(), costs(link=0.1, operation=0.1))
    assert found.method is TransferMethod.DATA
    assert found.predicted == found.data


def test_what_was_never_measured_is_sent_as_data() -> None:
    """Neither an unmeasured operation nor an unmeasured link is guessed."""
    link = [Measurement(MB, 0.1)]
    assert "no run of op has been measured" in plan(clean(), CostModel(link)).reason
    storage = {("op", ExecutionSide.STORAGE): [Measurement(MB, 0.1)]}
    assert "the link has not been measured" in plan(clean(), CostModel(compute=storage)).reason


def test_an_evicted_dataset_goes_as_its_operation_whatever_its_size_and_speed() -> None:
    """There are no bytes to send."""
    known = clean(bytes=10, cache=CacheState.EVICTED)
    found = plan(known, costs(operation=99))
    assert found.method is TransferMethod.OPERATION
    assert found.waits_for == ()
    assert "its bytes are evicted" in found.reason


def test_an_evicted_dataset_waits_for_sources_that_are_nowhere() -> None:
    """A source in the cache or in the under-store will do; one that is in neither is waited for."""
    known = lineage(
        persisted("a", by=None), made("b", "a"), evicted("c", "a"), evicted("clean", "a", "b", "c", bytes=100 * MB)
    )
    found = plan(known)
    assert found.method is TransferMethod.OPERATION
    assert found.waits_for == (ref("c"),)
    assert found.reason.endswith("waits for c@1")


def test_a_lost_dataset_that_cannot_be_made_again_waits_for_itself() -> None:
    """Its data has to be recovered before it can be sent."""
    found = plan(clean(call=None, cache=CacheState.LOST))
    assert found.waits_for == (ref("clean"),)
    assert "has to be recovered first" in found.reason


def test_both_candidates_are_shown_whatever_is_chosen() -> None:
    """`explain` can say what the other would have taken."""
    found = plan(clean(), costs(link=0.01, operation=0.1))
    assert found.method is TransferMethod.DATA
    assert found.data is not None and found.operation is not None
    assert found.data.seconds < found.operation.seconds


def test_the_operation_is_measured_by_the_bytes_of_its_sources() -> None:
    """A filter that keeps little still reads all."""
    known = clean().with_changes(persisted("raw", by=None, bytes=500 * MB))
    found = plan_transfer(ref("clean"), known, costs(), small_bytes=MB)
    assert found.operation is not None and found.operation.seconds == pytest.approx(5.0)
    assert replace(found.operation, summary="") == replace(found.predicted or found.operation, summary="")
