"""The orders that are there to be compared with."""

from springline.persistence.model.dataset import Phase
from tests.support.datasets.lineages import cached, lineage_of, persisted
from tests.support.scores import order, score


def test_fifo_sends_the_first_committed_first() -> None:
    """The time of commit counts, not that of creation."""
    late, early = cached("late", committed_at=9.0, created_at=1.0), cached("early", committed_at=5.0, created_at=2.0)
    assert order("fifo", lineage_of(late, early), "late", "early") == ["early", "late"]


def test_hash_order_is_the_same_every_time_and_ignores_the_dataset() -> None:
    """It depends on the name alone."""
    one = score("hash-order", "x", lineage_of(cached("x", bytes=1)))
    other = score("hash-order", "x", lineage_of(persisted("x", bytes=10**9, reads=7)))
    assert one == other and 0 <= one.value < 1


def test_edge_sends_leaves_first_and_much_read_ones_before_others() -> None:
    """What nothing came from yet is the edge of the lineage."""
    lineage = lineage_of(cached("root", reads=9), cached("leaf", "root"), cached("hot", "root", reads=3))
    assert order("edge", lineage, "root", "leaf", "hot") == ["hot", "leaf", "root"]


def test_lrc_sends_first_what_most_operations_still_read() -> None:
    """Dependents that are done no longer count."""
    lineage = lineage_of(
        cached("a", by="parse"),
        cached("b", "a", by="clean"),
        cached("c", "b", by="count"),
        cached("d", "b", by="rank", phase=Phase.OPEN),
        readers={"parse": ("clean",), "clean": ("count", "rank", "sum")},
    )
    assert score("lrc", "b", lineage).value == 2
    assert score("lrc", "a", lineage).value == 0
    assert "rank and sum" in score("lrc", "b", lineage).reason
