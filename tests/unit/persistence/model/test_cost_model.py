"""Measured history and its predictions."""

import pytest

from springline.persistence.model.cost_model import CostModel, Measurement
from springline.persistence.model.dataset import ExecutionSide
from tests.support.datasets.lineages import cached, lineage_of, persisted, ref

MB = 1_000_000


def test_without_history_nothing_is_predicted() -> None:
    """A guess is not a measurement."""
    assert CostModel().predict_transfer(5 * MB) is None
    assert CostModel().predict_run("clean", ExecutionSide.CACHE, 5 * MB) is None


def test_a_line_is_found_through_start_up_and_rate() -> None:
    """Half a second of start-up and 20 ms a MB come back exactly, and the words say so."""
    history = [Measurement(size * MB, 0.5 + 0.02 * size) for size in (10, 20, 40, 80, 160)]
    prediction = CostModel(history).predict_transfer(100 * MB)
    assert prediction is not None
    assert prediction.seconds == pytest.approx(2.5)
    assert prediction.samples == 5
    assert "line through 5 measurements, 500 ms + 20 ms/MB" in prediction.summary


def test_two_stray_slow_runs_do_not_move_the_prediction() -> None:
    """Two of nine measured a hundred times too slow leave the line where it was."""
    history = [Measurement(size * MB, 0.5 + 0.02 * size) for size in range(10, 100, 10)]
    history[2] = Measurement(30 * MB, 110.0)
    history[6] = Measurement(70 * MB, 190.0)
    prediction = CostModel(history).predict_transfer(50 * MB)
    assert prediction is not None
    assert prediction.seconds == pytest.approx(1.5, rel=0.1)


def test_few_measurements_give_their_median_rate() -> None:
    """Three runs at 10, 20 and 30 ms a MB predict 20."""
    history = [Measurement(MB, 0.01), Measurement(MB, 0.02), Measurement(MB, 0.03)]
    prediction = CostModel(history).predict_transfer(100 * MB)
    assert prediction is not None
    assert prediction.seconds == pytest.approx(2.0)
    assert "median rate of 3 measurements" in prediction.summary


def test_measurements_of_no_bytes_give_their_median_time() -> None:
    """An operation without sources takes what it took."""
    prediction = CostModel([Measurement(0, 3.0), Measurement(0, 5.0), Measurement(0, 40.0)]).predict_transfer(0)
    assert prediction is not None
    assert prediction.seconds == 5.0


def test_times_that_fall_with_size_never_predict_less_than_nothing() -> None:
    """A falling line is taken as flat."""
    prediction = CostModel([Measurement(size * MB, 10.0 - size) for size in range(1, 9)]).predict_transfer(1000 * MB)
    assert prediction is not None
    assert prediction.seconds >= 0


def test_the_newest_measurements_count() -> None:
    """A link that became ten times slower is predicted at what it does now."""
    old = [Measurement(size * MB, 0.01 * size) for size in range(1, 100)]
    new = [Measurement(size * MB, 0.1 * size) for size in range(1, 100)]
    prediction = CostModel(old + new).predict_transfer(50 * MB)
    assert prediction is not None
    assert prediction.seconds == pytest.approx(5.0)


def test_an_operation_measured_on_the_other_side_only_says_so() -> None:
    """History of the cache side serves for the storage side until there is better."""
    costs = CostModel(compute={("clean", ExecutionSide.CACHE): [Measurement(MB, 1.0)]})
    prediction = costs.predict_run("clean", ExecutionSide.STORAGE, 2 * MB)
    assert prediction is not None
    assert prediction.seconds == pytest.approx(2.0)
    assert prediction.summary.endswith("(measured on the cache side)")


def test_an_operation_is_predicted_by_the_side_it_will_run_on() -> None:
    """Measurements of that side win over those of the other."""
    costs = CostModel(
        compute={
            ("clean", ExecutionSide.CACHE): [Measurement(MB, 1.0)],
            ("clean", ExecutionSide.STORAGE): [Measurement(MB, 9.0)],
        }
    )
    prediction = costs.predict_run("clean", ExecutionSide.STORAGE, MB)
    assert prediction is not None
    assert prediction.seconds == pytest.approx(9.0)


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


def test_a_tiny_transfer_does_not_set_the_rate_of_large_ones() -> None:
    """Six bytes in 3 ms say nothing of the link; 100 MB in 2 s do."""
    predicted = CostModel([Measurement(6, 0.003), Measurement(100_000_000, 2.0)]).predict_transfer(50_000_000)
    assert predicted is not None and predicted.seconds == pytest.approx(1.0)
