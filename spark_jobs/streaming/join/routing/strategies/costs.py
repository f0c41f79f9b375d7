"""The paper's cost of a migration: the weighted sum of `C_routing`, `C_duplication` and `C_migration`.

The paper says what each is, and not in which unit. Here each is a share, so that they can be added: entries of all that
a table should have, probes sent once more of all tuples, tuples moved of all tuples.
"""

from __future__ import annotations

from dataclasses import dataclass

ENTRIES = 1000  # entries that a routing table may well have


@dataclass(frozen=True)
class Costs:
    """The weights; they add up to 1."""

    routing: float
    duplication: float
    migration: float

    def of(self, total: int, moved: float, *, entries: int = 0, doubled: float = 0) -> float:
        """The cost of moving `moved` of `total` tuples, with new entries, and probes that go to one unit more each."""
        all_ = max(total, 1)
        return self.routing * entries / ENTRIES + self.duplication * doubled / all_ + self.migration * moved / all_


PAPER_WEIGHTS = (Costs(0.2, 0.3, 0.5), Costs(0.1, 0.3, 0.6), Costs(0.1, 0.4, 0.5))
