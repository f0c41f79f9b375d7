"""Several topics that are read as one."""

from __future__ import annotations

import pytest

from springline.spark_jobs.streaming.runtime.topic_union import (
    partition_of,
    topics_of,
    union_name,
    union_partitions,
)

NAME = union_name(["a", "b", "c"])
PLACES = [("a", 0), ("b", 0), ("c", 0), ("a", 1), ("b", 1), ("c", 1)]


def test_units_are_partitions_of_each_topic_in_turn() -> None:
    """Whoever asks for one gets which partition of which topic it is."""
    assert topics_of(NAME) == ["a", "b", "c"]
    assert [partition_of(NAME, unit) for unit in range(6)] == PLACES
    partitions = [{0: "a0", 1: "a1"}, {0: "b0"}, {0: "c0", 1: "c1"}]
    assert union_partitions(partitions, "none") == {0: "a0", 1: "b0", 2: "c0", 3: "a1", 4: "none", 5: "c1"}


def test_a_unit_keeps_its_number_when_a_topic_gets_more_partitions() -> None:
    """All offsets that are remembered are by that number."""
    before = union_partitions([{0: "a0"}, {0: "b0", 1: "b1"}], "")
    after = union_partitions([{0: "a0", 1: "a1", 2: "a2"}, {0: "b0", 1: "b1"}], "")
    assert {unit: after[unit] for unit, name in before.items() if name} == {0: "a0", 1: "b0", 3: "b1"}
    assert after[2] == "a1" and after[4] == "a2"


@pytest.mark.parametrize("unit", [0, 2])
def test_a_topic_alone_stands_for_itself(unit: int) -> None:
    """Its units are its partitions."""
    assert topics_of("c") == ["c"]
    assert partition_of("c", unit) == ("c", unit)
    assert union_partitions([{1: "y", 0: "x"}], "") == {0: "x", 1: "y"}
