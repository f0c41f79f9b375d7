"""The paper's cost of a migration: the weighted sum of `C_routing`, `C_duplication` and `C_migration`.

The paper defines them without units. Here each is a ratio, so that they can be added: entries per intended entries of
a table, additional probes per tuple, tuples moved per tuple.
"""

from __future__ import annotations

from dataclasses import dataclass

ENTRIES = 1000  # number of entries that is acceptable in a routing table


@dataclass(frozen=True)
class CostWeights:
    """The weights; they add up to 1."""

    routing: float
    duplication: float
    migration: float

    def migration_cost(self, total: int, moved: float, *, entries: int = 0, extra_probes: float = 0) -> float:
        """Return the cost of moving `moved` of `total` tuples, with new entries, and probes that need one more unit."""
        tuples = max(total, 1)
        return (
            self.routing * entries / ENTRIES
            + self.duplication * extra_probes / tuples
            + self.migration * moved / tuples
        )


PAPER_WEIGHTS = (CostWeights(0.2, 0.3, 0.5), CostWeights(0.1, 0.3, 0.6), CostWeights(0.1, 0.4, 0.5))
