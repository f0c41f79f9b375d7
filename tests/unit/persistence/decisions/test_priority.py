"""The policies: the paper's signs, and value density."""

import pytest

from springline.persistence.model.dataset import Dataset, Operation, Phase
from tests.support.datasets.lineages import cached, lineage_of, persisted
from tests.support.scores import order, score


def test_the_paper_puts_what_cannot_be_recomputed_before_what_can() -> None:
    """a < 0: no recorded operation goes first; b < 0: then what is not idempotent."""
    lineage = lineage_of(cached("recorded", "raw"), cached("noise", "raw", by="dice"), cached("raw", by=None))
    assert order("paper", lineage, "recorded", "noise", "raw") == ["raw", "noise", "recorded"]


def test_the_paper_shows_the_terms_of_its_formula() -> None:
    """P is the sum of the four terms shown."""
    lineage = lineage_of(cached("x", "raw", checkpoint=True, reads=5))
    dataset_score = score("paper", "x", lineage)
    assert dataset_score.terms == {"a·x1": -4.0, "b·x2": -2.0, "c·x3": 1.0, "d·x4": 0.5}
    assert dataset_score.value == pytest.approx(-4.5)
    assert "its operation is idempotent, it is a checkpoint, read 5 times" in dataset_score.reason


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("paper", cached("a", "raw", by="liar"), cached("b", "raw")),
        ("value-density", cached("a", "raw", compute_seconds=60), cached("b", "raw", compute_seconds=1)),
        ("value-density", cached("a", "raw", bytes=10**6), cached("b", "raw", bytes=10**8)),
        ("value-density", cached("a", by=None, bytes=10**10), cached("b", "raw", compute_seconds=3600, bytes=10**8)),
    ],
    ids=["nondeterministic", "long computation", "small", "not recomputable"],
)
def test_what_is_dearer_to_lose_or_cheaper_to_persist_goes_first(name: str, first: Dataset, second: Dataset) -> None:
    """An operation that a second run contradicted counts as not idempotent; sizes and seconds as what they save."""
    liar = Operation("liar", "v1", idempotent=True, nondeterministic=True)
    lineage = lineage_of(persisted("raw", by=None), first, second, liar=liar)
    assert order(name, lineage, "b", "a") == ["a", "b"]


def test_value_density_counts_what_is_lost_together_with_a_landing_file() -> None:
    """Of two landing files the one that more was made from goes first; what is still being written has no bytes yet."""
    lineage = lineage_of(
        *(cached(path, by=None) for path in ("alone", "landing")),
        cached("a", "landing"),
        cached("open", "landing", phase=Phase.OPEN),
    )
    assert order("value-density", lineage, "alone", "landing") == ["landing", "alone"]
    assert "the permanent loss of landing@1 and a@1, 2 kB" in score("value-density", "landing", lineage).reason


def test_value_density_counts_what_an_operation_is_still_to_read_and_nothing_that_is_not_needed() -> None:
    """A temporary dataset is run again for it after a loss, unless nothing is still to run on it."""
    temporary = persisted("raw", by=None), cached("t", "raw", persist_requested=False)
    lineage = lineage_of(*temporary, cached("x", "t", by="dice"), readers={"op": ("dice", "sum")})
    assert score("value-density", "t", lineage).terms["seconds saved"] == 1.0
    dataset_score = score("value-density", "t", lineage_of(*temporary))
    assert dataset_score.value == 0
    assert "nothing depends on it" in dataset_score.reason


def test_value_density_says_what_a_loss_would_cost_and_what_persisting_takes() -> None:
    """In seconds, with the names of what would be run again."""
    lineage = lineage_of(persisted("raw", by=None), cached("x", "raw", bytes=10**8, compute_seconds=42))
    assert score("value-density", "x", lineage).reason == (
        "a loss of the cache would cost 42 s of re-running x@1; persisting it takes 2 s"
    )
