"""Measured history and its predictions."""

import pytest

from springline.persistence.model.cost_model import CostModel, Measurement
from springline.persistence.model.dataset import ExecutionSide
from tests.support.datasets.lineages import cached, lineage_of, persisted, ref

MB = 1_000_000
LINE = [Measurement(size * MB, 0.5 + 0.02 * size) for size in range(10, 100, 10)]


@pytest.mark.parametrize(
    ("history", "size", "seconds", "summary"),
    [
        pytest.param(LINE, 100 * MB, 2.5, "line through 9 measurements, 500 ms + 20 ms/MB", id="a line"),
        pytest.param(
            [*LINE[:2], Measurement(30 * MB, 110.0), *LINE[3:6], Measurement(70 * MB, 190.0), *LINE[7:]], 50 * MB, 1.5,
            "line through 9 measurements", id="two measured a hundred times too slow do not move the line",
        ),
        pytest.param(
            [Measurement(MB, 0.01), Measurement(MB, 0.02), Measurement(MB, 0.03)], 100 * MB, 2.0,
            "median rate of 3 measurements", id="few give their median rate",
        ),
        pytest.param(
            [Measurement(size * MB, 0.1 * size - 0.9) for size in (10, 20, 30, 40)], 10 * MB, 0.7,
            "median rate of 4 measurements", id="a line that begins below nothing is none",
        ),
        pytest.param(
            [Measurement(0, 3.0), Measurement(0, 5.0), Measurement(0, 40.0)], 0, 5.0, "",
            id="those of no bytes give their median time",
        ),
        pytest.param(
            [Measurement(size * MB, rate * size) for rate in (0.01, 0.1) for size in range(1, 100)], 50 * MB, 5.0, "",
            id="the newest count",
        ),
        pytest.param(
            [Measurement(6, 0.003), Measurement(100 * MB, 2.0)], 50 * MB, 1.0, "",
            id="a tiny transfer does not set the rate of large ones",
        ),
    ],
)  # fmt: skip
def test_a_transfer_is_predicted_from_its_history(
    history: list[Measurement], size: int, seconds: float, summary: str
) -> None:
    """By a robust line through start-up and rate, or by a median of what is too little for a line, in words too."""
    prediction = CostModel(history).predict_transfer(size)
    assert prediction is not None and summary in prediction.summary
    assert prediction.seconds == pytest.approx(seconds)


def test_an_operation_is_predicted_by_the_side_it_will_run_on() -> None:
    """History of the cache side serves for the storage side until there is better, and says so."""
    on_cache_side = {("clean", ExecutionSide.CACHE): [Measurement(MB, 1.0)]}
    prediction = CostModel(compute=on_cache_side).predict_run("clean", ExecutionSide.STORAGE, 2 * MB)
    assert prediction is not None
    assert prediction.seconds == pytest.approx(2.0)
    assert prediction.summary.endswith("(measured on the cache side)")
    on_both_sides = {**on_cache_side, ("clean", ExecutionSide.STORAGE): [Measurement(MB, 9.0)]}
    prediction = CostModel(compute=on_both_sides).predict_run("clean", ExecutionSide.STORAGE, MB)
    assert prediction is not None and prediction.seconds == pytest.approx(9.0)


def test_making_a_dataset_again_takes_what_it_took() -> None:
    """What was measured of this very dataset beats a prediction over many."""
    lineage = lineage_of(
        persisted("a", by=None), cached("b", "a", compute_seconds=7.0), cached("c", "a", compute_seconds=None)
    )
    costs = CostModel(compute={("op", ExecutionSide.CACHE): [Measurement(1000, 2.0)]})
    first, second = costs.predict_rerun(ref("b"), lineage), costs.predict_rerun(ref("c"), lineage)
    assert first is not None and first.seconds == 7.0
    assert second is not None and second.seconds == pytest.approx(2.0)
    assert costs.predict_rerun(ref("a"), lineage.with_changes(persisted("a", by=None, compute_seconds=None))) is None
