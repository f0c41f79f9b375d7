"""What a dataset costs from its write to its persisted copy, in calls: a bound that nobody passes without knowing."""

from __future__ import annotations

from collections import Counter

from springline.persistence.model.dataset import Strategy
from springline.persistence.platform import Platform
from springline.testing.lines import make_dataset as make
from tests.support.datasets.calls import counted_calls


def test_a_dataset_takes_so_many_statements(platform: Platform) -> None:
    """Of its write, and of its transfer, with the look at the queue afterwards."""
    make(platform, "before", "load")
    platform.persister.drain()
    with counted_calls(platform) as written:
        make(platform, "a", "load", strategy=Strategy.ASYNC_STORE)
    with counted_calls(platform) as sent:
        assert platform.persister.drain().persisted == 1
    assert written <= Counter(statements=56, transactions=13)
    assert sent <= Counter(statements=46, transactions=13)
