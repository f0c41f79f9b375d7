"""Orders of persisting that are there to be compared with: `SPRINGLINE_POLICY` chooses one by its name."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from springline.persistence.decisions.priority import Score
from springline.persistence.model.cost_model import Costs
from springline.persistence.model.dataset import Phase, Ref
from springline.persistence.model.lineage import Lineage
from springline.persistence.settings import Settings
from springline.persistence.text.formatting import say_list, say_seconds


def fifo(settings: Settings) -> Fifo:
    """`fifo`: first committed, first sent."""
    return Fifo()


def hash_order(settings: Settings) -> HashOrder:
    """`hash-order`: what Alluxio does, the order of a hash map."""
    return HashOrder()


def edge(settings: Settings) -> Edge:
    """`edge`: what Tachyon does, the leaves of the lineage first."""
    return Edge()


def lrc(settings: Settings) -> Lrc:
    """`lrc`: the most references still to come first."""
    return Lrc()


@dataclass(frozen=True)
class Fifo:
    """First committed, first sent."""

    name: str = "fifo"
    local: bool = True

    def score(self, ref: Ref, lineage: Lineage, costs: Costs, now: float) -> Score:
        dataset = lineage.datasets[ref]
        since = dataset.committed_at or dataset.created_at
        return Score(-since, {"-committed_at": -since}, f"waiting for {say_seconds(max(now - since, 0.0))}")


@dataclass(frozen=True)
class HashOrder:
    """An order that has nothing to do with the dataset, as that of a hash map."""

    name: str = "hash-order"
    local: bool = True

    def score(self, ref: Ref, lineage: Lineage, costs: Costs, now: float) -> Score:
        number = int.from_bytes(blake2b(str(ref).encode(), digest_size=6).digest(), "big") / 2**48
        return Score(number, {"hash": number}, f"the hash of its name is {number:.4f}")


@dataclass(frozen=True)
class Edge:
    """The leaves of the lineage first, much read ones before the others (Tachyon's edge algorithm)."""

    name: str = "edge"
    local: bool = False

    def score(self, ref: Ref, lineage: Lineage, costs: Costs, now: float) -> Score:
        reads = lineage.datasets[ref].reads
        made = [d for d in lineage.dependents(ref) if lineage.datasets[d].phase is Phase.COMMITTED]
        terms = {"leaf": 0.0 if made else 1.0, "read": reads / (1 + reads)}
        where = f"{say_list(made)} came from it" if made else "a leaf: nothing came from it yet"
        return Score(sum(terms.values()), terms, f"{where}; read {reads} times")


@dataclass(frozen=True)
class Lrc:
    """The most references still to come first (least reference count, turned to persisting)."""

    name: str = "lrc"
    local: bool = False

    def score(self, ref: Ref, lineage: Lineage, costs: Costs, now: float) -> Score:
        waiting = lineage.to_run(ref)
        who = f": {say_list(waiting)}" if waiting else ""
        return Score(
            float(len(waiting)), {"to run": float(len(waiting))}, f"{len(waiting)} operations still to read it{who}"
        )
