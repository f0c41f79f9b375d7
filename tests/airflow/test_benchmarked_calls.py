"""The benchmark of the API's calls about datasets: each of its calls is answered."""

from __future__ import annotations

from benchmarks.datasets.catalog import fill
from benchmarks.datasets.dataset_calls import client, measure
from springline.persistence.platform import Platform


def test_every_call_that_is_measured_is_answered(platform: Platform) -> None:
    """Past the gate, which lets no request through without a user."""
    fill(platform, 1000)
    with client(platform) as get:
        rows = measure(get, 1, lambda _: None)
    assert len(rows) >= 8
    assert all(row["answer_bytes"] for row in rows)
