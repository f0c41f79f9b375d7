"""The history of the risk: what is known of the time between two samples, whatever was thinned out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from springline.persistence.catalog.risk_samples import known_until, redundant_minutes

DAY = 24 * 60
NOW = 1000 * DAY
MINUTES = st.sets(st.integers(NOW - 60 * DAY, NOW), min_size=1, max_size=60).map(sorted)


@given(MINUTES)
def test_what_is_known_of_a_sample_ends_with_the_next_one_at_the_latest(minutes: list[int]) -> None:
    """And not before the sample itself."""
    ends = known_until(minutes, NOW)
    for minute, end, following in zip(minutes, ends, [*minutes[1:], NOW], strict=True):
        assert minute <= end <= following
        assert end > minute or following == minute


@given(MINUTES, st.integers(1, 60 * DAY))
def test_a_gap_stays_one_when_samples_after_it_are_added(minutes: list[int], later: int) -> None:
    """Only what is added within it closes it."""
    added = minutes[-1] + later
    before, after = known_until(minutes, added), known_until([*minutes, added], added)
    assert after[: len(minutes)] == before


@given(st.integers(1, 5), st.integers(1, 45 * DAY))
def test_samples_that_are_taken_regularly_have_no_gap_when_they_are_thinned_out(interval: int, span: int) -> None:
    """Every five minutes at the latest, as the maintenance does; once thinned, at any age."""
    minutes = list(range(NOW - span, NOW + 1, interval))
    kept = sorted(set(minutes) - set(redundant_minutes(minutes, NOW)))
    assert known_until(kept, NOW) == [*kept[1:], NOW]
