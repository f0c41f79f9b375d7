"""Persistence policies for comparison; `SPRINGLINE_POLICY` selects one by name."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from springline.persistence.decisions.priority import Score
from springline.persistence.model.cost_model import CostModel
from springline.persistence.model.dataset import Phase, Ref
from springline.persistence.model.lineage import Lineage
from springline.persistence.settings import Settings
from springline.persistence.text.formatting import format_list, format_seconds


def fifo(settings: Settings) -> FifoPolicy:
    """Create the policy `fifo`: first committed, first persisted."""
    return FifoPolicy()


def hash_order(settings: Settings) -> HashOrderPolicy:
    """Create the policy `hash-order`: the order of a hash map, as in Alluxio."""
    return HashOrderPolicy()


def edge(settings: Settings) -> EdgePolicy:
    """Create the policy `edge`: the leaves of the lineage first, as in Tachyon."""
    return EdgePolicy()


def lrc(settings: Settings) -> LrcPolicy:
    """Create the policy `lrc`: the dataset with the most expected reads first."""
    return LrcPolicy()


@dataclass(frozen=True)
class FifoPolicy:
    """First committed, first persisted."""

    name: str = "fifo"
    local: bool = True

    def score(self, ref: Ref, lineage: Lineage, costs: CostModel, now: float) -> Score:
        dataset = lineage.datasets[ref]
        since = dataset.committed_at or dataset.created_at
        return Score(-since, {"-committed_at": -since}, f"waiting for {format_seconds(max(now - since, 0.0))}")


@dataclass(frozen=True)
class HashOrderPolicy:
    """An order that does not depend on the dataset, like that of a hash map."""

    name: str = "hash-order"
    local: bool = True

    def score(self, ref: Ref, lineage: Lineage, costs: CostModel, now: float) -> Score:
        number = int.from_bytes(blake2b(str(ref).encode(), digest_size=6).digest(), "big") / 2**48
        return Score(number, {"hash": number}, f"the hash of its name is {number:.4f}")


@dataclass(frozen=True)
class EdgePolicy:
    """The leaves of the lineage first, and among them the most read ones (Tachyon's edge algorithm)."""

    name: str = "edge"
    local: bool = False

    def score(self, ref: Ref, lineage: Lineage, costs: CostModel, now: float) -> Score:
        reads = lineage.datasets[ref].reads
        dependents = [d for d in lineage.dependents(ref) if lineage.datasets[d].phase is Phase.COMMITTED]
        terms = {"leaf": 0.0 if dependents else 1.0, "read": reads / (1 + reads)}
        where = f"{format_list(dependents)} came from it" if dependents else "a leaf: nothing came from it yet"
        return Score(sum(terms.values()), terms, f"{where}; read {reads} times")


@dataclass(frozen=True)
class LrcPolicy:
    """The dataset with the most expected reads first (least reference count, applied to persisting)."""

    name: str = "lrc"
    local: bool = False

    def score(self, ref: Ref, lineage: Lineage, costs: CostModel, now: float) -> Score:
        readers = lineage.expected_readers(ref)
        reader_names = f": {format_list(readers)}" if readers else ""
        return Score(
            float(len(readers)),
            {"to run": float(len(readers))},
            f"{len(readers)} operations still to read it{reader_names}",
        )
