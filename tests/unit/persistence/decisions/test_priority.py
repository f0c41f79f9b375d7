"""The policies: the paper's signs, and value density."""

import pytest

from springline.persistence.model.dataset import Operation, Phase
from tests.support.datasets.lineages import cached, lineage_of, persisted
from tests.support.scores import order, score


def test_the_paper_puts_what_cannot_be_recomputed_before_what_can() -> None:
    """a < 0: no recorded operation goes first; b < 0: then what is not idempotent."""
    lineage = lineage_of(cached("recorded", "raw"), cached("noise", "raw", by="dice"), cached("raw", by=None))
    assert order("paper", lineage, "recorded", "noise", "raw") == ["raw", "noise", "recorded"]


def test_the_paper_puts_checkpoints_before_other_datasets() -> None:
    """c > 0."""
    lineage = lineage_of(cached("plain", "raw"), cached("mark", "raw", checkpoint=True))
    assert order("paper", lineage, "plain", "mark") == ["mark", "plain"]


def test_the_paper_puts_the_much_read_before_the_little_read() -> None:
    """d > 0."""
    lineage = lineage_of(cached("little", "raw", reads=1), cached("much", "raw", reads=5))
    assert order("paper", lineage, "little", "much") == ["much", "little"]


def test_the_paper_shows_the_terms_of_its_formula() -> None:
    """P is the sum of the four terms shown."""
    lineage = lineage_of(cached("x", "raw", checkpoint=True, reads=5))
    dataset_score = score("paper", "x", lineage)
    assert dataset_score.terms == {"a·x1": -4.0, "b·x2": -2.0, "c·x3": 1.0, "d·x4": 0.5}
    assert dataset_score.value == pytest.approx(-4.5)
    assert "its operation is idempotent, it is a checkpoint, read 5 times" in dataset_score.reason


def test_the_paper_counts_an_nondeterministic_operation_as_not_idempotent() -> None:
    """What a second run contradicted goes before what can be relied on."""
    liar = Operation("liar", "v1", idempotent=True, nondeterministic=True)
    lineage = lineage_of(cached("a", "raw"), cached("b", "raw", by="liar"), liar=liar)
    assert order("paper", lineage, "a", "b") == ["b", "a"]


def test_value_density_prefers_long_computations_to_short_ones_of_the_same_size() -> None:
    """More recovery is saved by the same seconds of the link."""
    lineage = lineage_of(
        persisted("raw", by=None), cached("quick", "raw", compute_seconds=1), cached("slow", "raw", compute_seconds=60)
    )
    assert order("value-density", lineage, "quick", "slow") == ["slow", "quick"]


def test_value_density_prefers_small_datasets_to_large_ones_of_the_same_computation() -> None:
    """The same recovery is saved by fewer seconds of the link."""
    lineage = lineage_of(
        persisted("raw", by=None), cached("large", "raw", bytes=10**8), cached("small", "raw", bytes=10**6)
    )
    assert order("value-density", lineage, "large", "small") == ["small", "large"]


def test_value_density_sends_what_cannot_be_made_again_first() -> None:
    """However large, and however long the others take to compute."""
    lineage = lineage_of(
        persisted("raw", by=None),
        cached("slow", "raw", compute_seconds=3600, bytes=10**8),
        cached("landing", by=None, bytes=10**10),
    )
    assert order("value-density", lineage, "slow", "landing") == ["landing", "slow"]


def test_value_density_counts_what_is_lost_together_with_a_landing_file() -> None:
    """Of two landing files the one that more was made from goes first."""
    lineage = lineage_of(
        cached("alone", by=None, bytes=10**6),
        cached("landing", by=None, bytes=10**6),
        cached("a", "landing", bytes=10**6),
    )
    assert order("value-density", lineage, "alone", "landing") == ["landing", "alone"]
    assert "the permanent loss of landing@1 and a@1" in score("value-density", "landing", lineage).reason


def test_value_density_does_not_count_what_is_still_being_written() -> None:
    """It has no bytes to lose yet."""
    lineage = lineage_of(cached("landing", by=None), cached("a", "landing", phase=Phase.OPEN))
    assert score("value-density", "landing", lineage).reason.startswith(
        "a loss of the cache would cost the permanent loss of landing@1"
    )


def test_value_density_does_not_count_what_another_loss_would_take_anyway() -> None:
    """Persisting one of two landing files saves nothing that needs both."""
    lineage = lineage_of(cached("x", by=None), cached("y", by=None), cached("both", "x", "y"))
    assert "cost the permanent loss of x@1" in score("value-density", "x", lineage).reason


def test_value_density_counts_temporary_ancestors_that_only_one_dataset_needs() -> None:
    """Persisting the end of a chain of unwanted datasets saves running the whole chain."""
    lineage = lineage_of(
        persisted("raw", by=None),
        cached("t1", "raw", persist_requested=False),
        cached("t2", "t1", persist_requested=False),
        cached("end", "t2"),
    )
    assert score("value-density", "end", lineage).terms["seconds saved"] == 3.0


def test_value_density_does_not_count_ancestors_that_are_needed_anyway() -> None:
    """A temporary dataset that a second one needs, or that an operation is still to read, is run again all the same."""
    lineage = lineage_of(
        persisted("raw", by=None),
        cached("t", "raw", by="op", persist_requested=False),
        cached("x", "t"),
        cached("y", "t"),
    )
    assert score("value-density", "x", lineage).terms["seconds saved"] == 1.0
    lineage_with_queue = lineage_of(
        persisted("raw", by=None),
        cached("t", "raw", persist_requested=False),
        cached("x", "t", by="dice"),
        readers={"op": ("dice", "sum")},
    )
    assert score("value-density", "t", lineage_with_queue).terms["seconds saved"] == 1.0


def test_value_density_gives_nothing_to_what_nobody_needs() -> None:
    """Not wanted, and nothing still to run on it."""
    lineage = lineage_of(persisted("raw", by=None), cached("t", "raw", persist_requested=False))
    dataset_score = score("value-density", "t", lineage)
    assert dataset_score.value == 0
    assert "nothing depends on it" in dataset_score.reason


def test_value_density_says_what_a_loss_would_cost_and_what_persisting_takes() -> None:
    """In seconds, with the names of what would be run again."""
    lineage = lineage_of(persisted("raw", by=None), cached("x", "raw", bytes=10**8, compute_seconds=42))
    assert score("value-density", "x", lineage).reason == (
        "a loss of the cache would cost 42 s of re-running x@1; persisting it takes 2 s"
    )
