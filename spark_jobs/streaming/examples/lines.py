"""Lines of text drawn at random: a few words a line, some words far more often than others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_VOCABULARY = 10_000
_SKEW = 1.1  # Zipf's exponent
_MOST_WORDS = 8
_SYLLABLES = ("ka", "lo", "mi", "ter", "sa", "no", "rin", "du")


def word(number: int) -> str:
    """The word of a number: the same for the same, another for another."""
    found = ""
    while number or not found:
        number, digit = divmod(number, len(_SYLLABLES))
        found += _SYLLABLES[digit]
    return found


def messages(*, rows: int, size: int, seed: int = 20130101) -> Iterator[bytes]:
    """So many lines, `size` a message; the same for the same seed."""
    drawn = np.random.default_rng(seed)
    words = [word(number) for number in range(_VOCABULARY)]
    chances = 1 / np.arange(1, _VOCABULARY + 1) ** _SKEW
    chances /= chances.sum()
    for begin in range(0, rows, size):
        lengths = drawn.integers(1, _MOST_WORDS + 1, min(size, rows - begin))
        numbers = iter(drawn.choice(_VOCABULARY, int(lengths.sum()), p=chances).tolist())
        yield "\n".join(" ".join(words[next(numbers)] for _ in range(length)) for length in lengths).encode()
