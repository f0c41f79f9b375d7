"""Several topics that are read as one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from spark_jobs.streaming.sums import place_of, sum_of, together, topics_of

UNITS = {"a": [0, 1], "b": [0], "c": [0, 1, 2]}


def units_of(topic: str) -> Sequence[int]:
    return UNITS[topic]


def test_units_are_those_of_each_topic_in_turn() -> None:
    """Whoever asks for one is told which unit of which topic it is."""
    name = sum_of(["a", "b", "c"])
    assert topics_of(name) == ["a", "b", "c"]
    places = [place_of(name, unit, units_of) for unit in range(6)]
    assert places == [("a", 0), ("a", 1), ("b", 0), ("c", 0), ("c", 1), ("c", 2)]
    assert together([{unit: (topic, unit) for unit in UNITS[topic]} for topic in topics_of(name)]) == dict(
        enumerate(places)
    )


@pytest.mark.parametrize("unit", [0, 2])
def test_a_topic_alone_stands_for_itself(unit: int) -> None:
    """Nobody is asked how many units it has."""
    assert topics_of("c") == ["c"]
    assert place_of("c", unit, lambda topic: pytest.fail("asked")) == ("c", unit)
    assert together([{1: "y", 0: "x"}]) == {0: "x", 1: "y"}
