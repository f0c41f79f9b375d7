"""Several topics read as one: `orders+items` has the units of `orders`, and behind them those of `items`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

_BETWEEN = "+"  # no topic has it in its name

T = TypeVar("T")


def sum_of(topics: Sequence[str]) -> str:
    """The name of all of them as one."""
    return _BETWEEN.join(topics)


def topics_of(name: str) -> list[str]:
    """The topics that a name stands for: most stand for themselves."""
    return name.split(_BETWEEN)


def together(parts: Iterable[Mapping[int, T]]) -> dict[int, T]:
    """What is known of the units of each topic, by the units of their sum."""
    found: dict[int, T] = {}
    for part in parts:
        found |= {len(found) + number: part[unit] for number, unit in enumerate(sorted(part))}
    return found


def place_of(name: str, unit: int, units_of: Callable[[str], Sequence[int]]) -> tuple[str, int]:
    """The topic that a unit of a sum is of, and which one it is there."""
    *firsts, last = topics_of(name)
    for topic in firsts:
        if unit < (size := len(units_of(topic))):
            return topic, unit
        unit -= size
    return last, unit
