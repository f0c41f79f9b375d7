"""Random orders and their items, for a join: some orders have far more items than others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

ORDERS = 100_000  # number of keys; with more rows, order keys repeat
_SKEW = 1.0  # Zipf's exponent of the items per order
_PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
_MODES = ("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK")


def order_messages(*, rows: int, size: int, seed: int = 20130101) -> Iterator[bytes]:
    """Yield lines `orderkey,customer,priority`, with the keys in turn; deterministic for a seed."""
    generator = np.random.default_rng(seed)
    for begin in range(0, rows, size):
        count = min(size, rows - begin)
        customers, priorities = generator.integers(0, 10_000, count), generator.integers(0, len(_PRIORITIES), count)
        keys = np.arange(begin, begin + count) % ORDERS
        lines = zip(keys.tolist(), customers.tolist(), priorities.tolist(), strict=True)
        yield "\n".join(f"{key},{customer},{_PRIORITIES[priority]}" for key, customer, priority in lines).encode()


def item_messages(*, rows: int, size: int, seed: int = 20130102) -> Iterator[bytes]:
    """Yield lines `orderkey,quantity,price,shipmode`, with keys by Zipf's law; deterministic for a seed."""
    generator = np.random.default_rng(seed)
    chances = np.cumsum(1 / np.arange(1, ORDERS + 1) ** _SKEW)
    chances /= chances[-1]
    for begin in range(0, rows, size):
        count = min(size, rows - begin)
        keys = np.searchsorted(chances, generator.random(count))
        quantities, prices = generator.integers(1, 51, count), generator.integers(100, 100_000, count) / 100
        modes = generator.integers(0, len(_MODES), count)
        lines = zip(keys.tolist(), quantities.tolist(), prices.tolist(), modes.tolist(), strict=True)
        yield "\n".join(f"{key},{many},{price},{_MODES[mode]}" for key, many, price, mode in lines).encode()
