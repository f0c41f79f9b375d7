"""The smallest first: most datasets are safe soonest, whatever they are worth."""

from __future__ import annotations

from dataclasses import dataclass

from springline import CostModel, Lineage, Ref, Score, Settings, format_bytes


def smallest(settings: Settings) -> Smallest:
    """What `SPRINGLINE_POLICY=smallest` chooses; it needs none of the settings."""
    return Smallest()


@dataclass(frozen=True)
class Smallest:
    """Fewer bytes first. `local`: the score depends on the dataset alone, so a stored one stays true."""

    name: str = "smallest"
    local: bool = True

    def score(self, ref: Ref, lineage: Lineage, costs: CostModel, now: float) -> Score:
        size = lineage.datasets[ref].bytes
        return Score(-float(size), {"-bytes": -float(size)}, f"it has {format_bytes(size)}")
