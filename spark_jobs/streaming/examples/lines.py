"""Random lines of text: a few words per line, with word frequencies by Zipf's law."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_VOCABULARY = 10_000
_SKEW = 1.1  # Zipf's exponent
_MOST_WORDS = 8
_SYLLABLES = ("ka", "lo", "mi", "ter", "sa", "no", "rin", "du")


def word(number: int) -> str:
    """Return the word of a number; different numbers have different words."""
    text = ""
    while number or not text:
        number, digit = divmod(number, len(_SYLLABLES))
        text += _SYLLABLES[digit]
    return text


def messages(*, rows: int, size: int, seed: int = 20130101) -> Iterator[bytes]:
    """Yield `rows` random lines, `size` per message; deterministic for a seed."""
    generator = np.random.default_rng(seed)
    vocabulary = [word(number) for number in range(_VOCABULARY)]
    chances = 1 / np.arange(1, _VOCABULARY + 1) ** _SKEW
    chances /= chances.sum()
    for begin in range(0, rows, size):
        lengths = generator.integers(1, _MOST_WORDS + 1, min(size, rows - begin))
        numbers = iter(generator.choice(_VOCABULARY, int(lengths.sum()), p=chances).tolist())
        yield "\n".join(" ".join(vocabulary[next(numbers)] for _ in range(length)) for length in lengths).encode()
