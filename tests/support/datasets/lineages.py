"""Small lineages for tests, written as one word a dataset, and hypothesis strategies that draw any."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from springline.persistence.model.dataset import (
    CacheState,
    Call,
    Dataset,
    Operation,
    Phase,
    Ref,
    Strategy,
    UnderStoreState,
)
from springline.persistence.model.lineage import Lineage


def ref(name: str) -> Ref:
    """The first generation of a path."""
    return Ref(name, 1)


def cached(name: str, *sources: str, by: str | None = "op", **fields: object) -> Dataset:
    """A committed generation in the cache that operation `by` made from `sources`."""
    call = Call(by, "v1") if by else None
    dataset = Dataset(ref(name), bytes=1000, call=call, sources=tuple(ref(s) for s in sources), compute_seconds=1.0)
    return replace(dataset, **fields)


def persisted(name: str, *sources: str, **fields: object) -> Dataset:
    """The same, with a verified copy in the under-store."""
    return cached(name, *sources, under=UnderStoreState.PRESENT, **fields)


def evicted(name: str, *sources: str, **fields: object) -> Dataset:
    """The same, let go from the cache."""
    return cached(name, *sources, cache=CacheState.EVICTED, **fields)


def lineage_of(
    *datasets: Dataset, readers: dict[str, tuple[str, ...]] | None = None, **operations: Operation
) -> Lineage:
    """A lineage in which `op` is idempotent and has been seen to repeat, `dice` is not idempotent."""
    all_operations = {
        "op": Operation("op", "v1", idempotent=True, repeats=1),
        "dice": Operation("dice", "v1", idempotent=False),
        **operations,
    }
    return Lineage(
        {d.ref: d for d in datasets}, {(o.name, o.version): o for o in all_operations.values()}, readers or {}
    )


def chain_of(length: int, **fields: object) -> Lineage:
    """d0 (persisted) -> d1 -> … -> d<length>, all in the cache, later ones used later."""
    datasets = [persisted("d0", by=None)]
    for i in range(1, length + 1):
        datasets.append(cached(f"d{i}", f"d{i - 1}", created_at=float(i), **fields))
    return lineage_of(*datasets)


@st.composite
def lineages(draw: st.DrawFn, most: int = 12, *, settled: bool = False) -> Lineage:
    """Any lineage: random sources, operations of every kind, every state of cache and under-store.

    `settled`: everything is in the cache still, nothing has been evicted or lost before.
    """
    operations = {
        "good": Operation("good", "v1", idempotent=True, repeats=2),
        "fresh": Operation("fresh", "v1", idempotent=True),
        "dice": Operation("dice", "v1", idempotent=False),
        "liar": Operation("liar", "v1", idempotent=True, nondeterministic=True, repeats=1),
        "lapsed": Operation("lapsed", "v1", idempotent=True, runnable=False, repeats=3),
    }
    names = [*["good"] * 6, "fresh", "dice", "liar", "lapsed", None]
    datasets: list[Dataset] = []
    for i in range(draw(st.integers(1, most))):
        sources = draw(st.lists(st.sampled_from([f"d{j}" for j in range(i)]), max_size=3, unique=True)) if i else []
        datasets.append(
            cached(
                f"d{i}",
                *sources,
                by=draw(st.sampled_from(names)),
                bytes=draw(st.integers(0, 50)),
                cache=CacheState.PRESENT
                if settled
                else draw(st.sampled_from([CacheState.PRESENT, CacheState.EVICTED, CacheState.LOST])),
                under=draw(
                    st.sampled_from(
                        [UnderStoreState.NONE, UnderStoreState.NONE, UnderStoreState.PRESENT, UnderStoreState.COPYING]
                    )
                ),
                phase=draw(st.sampled_from([*[Phase.COMMITTED] * 8, Phase.RETIRED])),
                strategy=Strategy.ASYNC_STORE,
                persist_requested=draw(st.booleans()),
                pinned=draw(st.sampled_from([False, False, False, True])),
                created_at=float(draw(st.integers(0, 5))),
            )
        )
    return lineage_of(*datasets, **operations)
