"""The policies: the paper's signs, and value density."""

import pytest

from springline.persistence.model.dataset import Operation, Phase
from tests.support.datasets.lineages import lineage, made, persisted
from tests.support.scores import order, score


def test_the_paper_puts_what_cannot_be_recomputed_before_what_can() -> None:
    """a < 0: no recorded operation goes first; b < 0: then what is not idempotent."""
    known = lineage(made("recorded", "raw"), made("noise", "raw", by="dice"), made("raw", by=None))
    assert order("paper", known, "recorded", "noise", "raw") == ["raw", "noise", "recorded"]


def test_the_paper_puts_checkpoints_before_other_datasets() -> None:
    """c > 0."""
    known = lineage(made("plain", "raw"), made("mark", "raw", checkpoint=True))
    assert order("paper", known, "plain", "mark") == ["mark", "plain"]


def test_the_paper_puts_the_much_read_before_the_little_read() -> None:
    """d > 0."""
    known = lineage(made("little", "raw", reads=1), made("much", "raw", reads=5))
    assert order("paper", known, "little", "much") == ["much", "little"]


def test_the_paper_shows_the_terms_of_its_formula() -> None:
    """P is the sum of the four terms shown."""
    known = lineage(made("x", "raw", checkpoint=True, reads=5))
    found = score("paper", "x", known)
    assert found.terms == {"a·x1": -4.0, "b·x2": -2.0, "c·x3": 1.0, "d·x4": 0.5}
    assert found.value == pytest.approx(-4.5)
    assert "its operation is idempotent, it is a checkpoint, read 5 times" in found.reason


def test_the_paper_counts_an_nondeterministic_operation_as_not_idempotent() -> None:
    """What a second run contradicted goes before what can be relied on."""
    liar = Operation("liar", "v1", idempotent=True, nondeterministic=True)
    known = lineage(made("a", "raw"), made("b", "raw", by="liar"), liar=liar)
    assert order("paper", known, "a", "b") == ["b", "a"]


def test_value_density_prefers_long_computations_to_short_ones_of_the_same_size() -> None:
    """More recovery is saved by the same seconds of the link."""
    known = lineage(
        persisted("raw", by=None), made("quick", "raw", compute_seconds=1), made("slow", "raw", compute_seconds=60)
    )
    assert order("value-density", known, "quick", "slow") == ["slow", "quick"]


def test_value_density_prefers_small_datasets_to_large_ones_of_the_same_computation() -> None:
    """The same recovery is saved by fewer seconds of the link."""
    known = lineage(persisted("raw", by=None), made("large", "raw", bytes=10**8), made("small", "raw", bytes=10**6))
    assert order("value-density", known, "large", "small") == ["small", "large"]


def test_value_density_sends_what_cannot_be_made_again_first() -> None:
    """However large, and however long the others take to compute."""
    known = lineage(
        persisted("raw", by=None),
        made("slow", "raw", compute_seconds=3600, bytes=10**8),
        made("landing", by=None, bytes=10**10),
    )
    assert order("value-density", known, "slow", "landing") == ["landing", "slow"]


def test_value_density_counts_what_is_lost_together_with_a_landing_file() -> None:
    """Of two landing files the one that more was made from goes first."""
    known = lineage(
        made("alone", by=None, bytes=10**6), made("landing", by=None, bytes=10**6), made("a", "landing", bytes=10**6)
    )
    assert order("value-density", known, "alone", "landing") == ["landing", "alone"]
    assert "landing@1 and a@1 for good" in score("value-density", "landing", known).reason


def test_value_density_does_not_count_what_is_still_being_written() -> None:
    """It has no bytes to lose yet."""
    known = lineage(made("landing", by=None), made("a", "landing", phase=Phase.OPEN))
    assert score("value-density", "landing", known).reason.startswith(
        "a loss of the cache would cost landing@1 for good"
    )


def test_value_density_does_not_count_what_another_loss_would_take_anyway() -> None:
    """Persisting one of two landing files saves nothing that needs both."""
    known = lineage(made("x", by=None), made("y", by=None), made("both", "x", "y"))
    assert "cost x@1 for good" in score("value-density", "x", known).reason


def test_value_density_counts_temporary_ancestors_that_only_one_dataset_needs() -> None:
    """Persisting the end of a chain of unwanted datasets saves running the whole chain."""
    known = lineage(
        persisted("raw", by=None),
        made("t1", "raw", persist_requested=False),
        made("t2", "t1", persist_requested=False),
        made("end", "t2"),
    )
    assert score("value-density", "end", known).terms["seconds saved"] == 3.0


def test_value_density_does_not_count_ancestors_that_are_needed_anyway() -> None:
    """A temporary dataset that a second one needs, or that an operation is still to read, is run again all the same."""
    known = lineage(
        persisted("raw", by=None),
        made("t", "raw", by="op", persist_requested=False),
        made("x", "t"),
        made("y", "t"),
    )
    assert score("value-density", "x", known).terms["seconds saved"] == 1.0
    waiting = lineage(
        persisted("raw", by=None),
        made("t", "raw", persist_requested=False),
        made("x", "t", by="dice"),
        readers={"op": ("dice", "sum")},
    )
    assert score("value-density", "t", waiting).terms["seconds saved"] == 1.0


def test_value_density_gives_nothing_to_what_nobody_needs() -> None:
    """Not wanted, and nothing still to run on it."""
    known = lineage(persisted("raw", by=None), made("t", "raw", persist_requested=False))
    found = score("value-density", "t", known)
    assert found.value == 0
    assert "nobody needs it" in found.reason


def test_value_density_says_what_a_loss_would_cost_and_what_persisting_takes() -> None:
    """In seconds, with the names of what would be run again."""
    known = lineage(persisted("raw", by=None), made("x", "raw", bytes=10**8, compute_seconds=42))
    assert score("value-density", "x", known).reason == (
        "a loss of the cache would cost 42 s of running x@1 again; persisting it takes 2 s"
    )
