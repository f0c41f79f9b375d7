"""Several topics read as one: in `orders+items`, even numbers are partitions of `orders`, odd ones of `items`.

So a partition keeps its number when a topic gets more of them. If a topic has fewer than another one, the missing ones
are partitions without messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

_SEPARATOR = "+"  # not allowed in the name of a topic

T = TypeVar("T")


def union_name(topics: Sequence[str]) -> str:
    """Return the name of the union of topics."""
    return _SEPARATOR.join(topics)


def topics_of(name: str) -> list[str]:
    """Return the topics in the name of a union; a plain topic name gives only itself."""
    return name.split(_SEPARATOR)


def union_partitions(parts: Sequence[Mapping[int, T]], missing: T) -> dict[int, T]:
    """Merge values by partition of each topic into values by number in the union; `missing` for absent partitions."""
    size = max(max(part, default=-1) + 1 for part in parts)
    return {
        number: parts[number % len(parts)].get(number // len(parts), missing) for number in range(size * len(parts))
    }


def partition_of(name: str, number: int) -> tuple[str, int]:
    """Return the topic and the partition that has a number in a union."""
    topics = topics_of(name)
    return topics[number % len(topics)], number // len(topics)
