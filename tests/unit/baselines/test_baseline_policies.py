"""The orders that are there to be compared with."""

from springline.persistence.model.dataset import Phase
from tests.support.datasets.lineages import lineage, made, persisted
from tests.support.scores import order, score


def test_fifo_sends_the_first_committed_first() -> None:
    """The time of commit counts, not that of creation."""
    known = lineage(made("late", committed_at=9.0, created_at=1.0), made("early", committed_at=5.0, created_at=2.0))
    assert order("fifo", known, "late", "early") == ["early", "late"]


def test_hash_order_is_the_same_every_time_and_ignores_the_dataset() -> None:
    """It depends on the name alone."""
    one = score("hash-order", "x", lineage(made("x", bytes=1)))
    other = score("hash-order", "x", lineage(persisted("x", bytes=10**9, reads=7)))
    assert one == other
    assert 0 <= one.value < 1


def test_edge_sends_leaves_first_and_much_read_ones_before_others() -> None:
    """What nothing came from yet is the edge of the lineage."""
    known = lineage(made("root", reads=9), made("leaf", "root"), made("hot", "root", reads=3))
    assert order("edge", known, "root", "leaf", "hot") == ["hot", "leaf", "root"]


def test_lrc_sends_first_what_most_operations_still_read() -> None:
    """Dependents that are done no longer count."""
    known = lineage(
        made("a", by="parse"),
        made("b", "a", by="clean"),
        made("c", "b", by="count"),
        made("d", "b", by="rank", phase=Phase.OPEN),
        readers={"parse": ("clean",), "clean": ("count", "rank", "sum")},
    )
    assert score("lrc", "b", known).value == 2
    assert score("lrc", "a", known).value == 0
    assert "rank and sum" in score("lrc", "b", known).reason
