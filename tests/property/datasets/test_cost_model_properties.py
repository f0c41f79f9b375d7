"""Predictions that hold for any history."""

from hypothesis import given
from hypothesis import strategies as st

from springline.persistence.model.cost_model import CostModel, Measurement

measurements = st.builds(Measurement, st.integers(0, 10**10), st.floats(0, 1e5))


@given(st.lists(measurements, min_size=1, max_size=30), st.integers(0, 10**10))
def test_a_prediction_is_never_negative_and_grows_with_size(history: list[Measurement], size: int) -> None:
    """Whatever was measured: more bytes never take less time."""
    costs = CostModel(history)
    small, large = costs.predict_transfer(size), costs.predict_transfer(2 * size)
    assert small is not None and large is not None
    assert 0 <= small.seconds <= large.seconds
    assert small.summary


@given(st.floats(0, 10), st.floats(1e-9, 1e-6), st.sets(st.integers(1, 10**9), min_size=4, max_size=30))
def test_a_true_line_is_found(start: float, slope: float, sizes: set[int]) -> None:
    """Measurements without noise are predicted as they are."""
    history = [Measurement(size, start + slope * size) for size in sizes]
    for m in history:
        prediction = CostModel(history).predict_transfer(m.bytes)
        assert prediction is not None
        assert abs(prediction.seconds - m.seconds) <= 0.01 * m.seconds + 1e-6
