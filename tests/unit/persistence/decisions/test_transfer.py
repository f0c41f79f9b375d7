"""The paper's transfer table, row by row."""

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


DATA, OPERATION = TransferMethod.DATA, TransferMethod.OPERATION
OF_BOTH = "operation: running op next to the under-store is predicted to take 1 s, sending 100 MB 10 s"
LINK_ONLY = CostModel([Measurement(MB, 0.1)])
STORAGE_ONLY = CostModel(compute={("op", ExecutionSide.STORAGE): [Measurement(MB, 0.1)]})
NOT_IDEMPOTENT = Lineage(clean().datasets, {("op", "v1"): Operation("op", "v1", idempotent=False)})
SOURCE_IN_CACHE = clean().with_changes(cached("raw", by=None, bytes=100 * MB))
EVICTED = clean(bytes=10, cache=CacheState.EVICTED)


@pytest.mark.parametrize(
    ("lineage", "measured", "method", "reason"),
    [
        pytest.param(clean(call=None), costs(), DATA, "no operation is recorded", id="no operation"),
        pytest.param(clean(bytes=MB), costs(link=9), DATA, "not more than 1 MB", id="small"),
        pytest.param(clean(bytes=MB + 1), costs(link=9), OPERATION, "predicted to take 1 s", id="just not small"),
        pytest.param(NOT_IDEMPOTENT, costs(), DATA, "not idempotent", id="not idempotent"),
        pytest.param(clean(), costs(), OPERATION, OF_BOTH, id="the operation is quicker"),
        pytest.param(clean(), costs(operation=0.1), DATA, "which is not faster", id="a tie"),
        pytest.param(clean(), LINK_ONLY, DATA, "no run of op has been measured", id="unmeasured operation"),
        pytest.param(clean(), STORAGE_ONLY, DATA, "the link has not been measured", id="unmeasured link"),
        pytest.param(SOURCE_IN_CACHE, costs(), DATA, "raw@1 is not persisted", id="source not persisted"),
        pytest.param(EVICTED, costs(operation=99), OPERATION, "are evicted", id="evicted, though small and slow"),
    ],
)
def test_each_row_of_the_table_decides(
    lineage: Lineage, measured: CostModel, method: TransferMethod, reason: str
) -> None:
    """What is chosen, and why; none of these waits for a source."""
    transfer_plan = plan(lineage, measured)
    assert (transfer_plan.method, transfer_plan.waits_for) == (method, ())
    assert reason in transfer_plan.reason


@pytest.mark.parametrize("operation_rate", [0.01, 1.0])
def test_both_candidates_are_predicted_whatever_is_chosen(operation_rate: float) -> None:
    """The operation by the bytes of its sources, for a filter that keeps little still reads all."""
    lineage = clean().with_changes(persisted("raw", by=None, bytes=500 * MB))
    transfer_plan = plan(lineage, costs(operation=operation_rate))
    assert transfer_plan.data is not None and transfer_plan.data.seconds == pytest.approx(10.0)
    assert transfer_plan.operation is not None
    assert transfer_plan.operation.seconds == pytest.approx(500 * operation_rate)
    predicted = transfer_plan.operation if transfer_plan.method is OPERATION else transfer_plan.data
    assert transfer_plan.predicted == predicted


def test_a_dataset_without_bytes_waits_for_sources_that_are_nowhere_or_for_itself() -> None:
    """A source in either store will do; what cannot be recomputed has to be recovered before it can be sent."""
    lineage = lineage_of(
        persisted("a", by=None), cached("b", "a"), evicted("c", "a"), evicted("clean", "a", "b", "c", bytes=100 * MB)
    )
    transfer_plan = plan(lineage)
    assert transfer_plan.method is TransferMethod.OPERATION
    assert transfer_plan.waits_for == (ref("c"),)
    assert transfer_plan.reason.endswith("waits for c@1")
    transfer_plan = plan(clean(call=None, cache=CacheState.LOST))
    assert transfer_plan.waits_for == (ref("clean"),)
    assert "restore it first" in transfer_plan.reason
