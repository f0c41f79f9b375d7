"""Several topics read as one: of `orders+items`, the even units are those of `orders`, the odd ones those of `items`.

So a unit keeps its number when a topic gets more partitions. Where a topic has fewer than another one, it has units
without messages, until it gets those partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

_BETWEEN = "+"  # no topic has it in its name

T = TypeVar("T")


def sum_of(topics: Sequence[str]) -> str:
    """The name of all of them as one."""
    return _BETWEEN.join(topics)


def topics_of(name: str) -> list[str]:
    """The topics that a name stands for: most stand for themselves."""
    return name.split(_BETWEEN)


def units_in(partitions: Sequence[int]) -> int:
    """How many units the sum of topics with so many partitions has."""
    return len(partitions) * max(partitions)


def together(parts: Sequence[Mapping[int, T]], missing: T) -> dict[int, T]:
    """What is known of the partitions of each topic, by the units of their sum; `missing` of those that are not."""
    size = max(max(part, default=-1) + 1 for part in parts)
    return {unit: parts[unit % len(parts)].get(unit // len(parts), missing) for unit in range(size * len(parts))}


def place_of(name: str, unit: int) -> tuple[str, int]:
    """The topic that a unit of a sum is of, and which partition it is there."""
    topics = topics_of(name)
    return topics[unit % len(topics)], unit // len(topics)
