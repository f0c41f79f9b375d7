"""What is only declared idempotent: counted apart from what was seen to repeat, until a second run has proved it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from springline.persistence.decisions.recovery import Risk, assess_risk
from springline.persistence.explain import explain
from springline.persistence.model.dataset import CacheState, Dataset, Strategy
from springline.persistence.platform import Platform
from springline.persistence.rendering import format_risk, risk_row, worst_moment
from springline.testing.lines import make_dataset as make
from tests.support.datasets.states import lose_cache, measured

SAFE = Strategy.ASYNC_AND_SYNC


def risk_of(platform: Platform) -> Risk:
    """What `at-risk` says now."""
    lineage = platform.catalog.lineage_of_cache()
    return assess_risk(lineage, platform.catalog.load_cost_model(lineage))


def make_by_operation(platform: Platform, operation: str) -> Dataset:
    """The output of `operation` on a persisted source, written under async_and_sync."""
    make(platform, "a", "load", strategy=SAFE)
    return make(platform, "b", operation, ["a"], strategy=SAFE)


def test_nothing_is_said_to_be_safe_by_a_declaration(platform: Platform) -> None:
    """In words, in JSON, over time, and in the reason of its place in the queue."""
    lied = make_by_operation(platform, "liar")
    text = format_risk(risk_of(platform))
    assert "nothing would be irrecoverable" not in text
    assert f"might be irrecoverable ({lied.ref})" in text and "not proven" in text
    assert risk_row(risk_of(platform))["unproven"] == [str(lied.ref)]
    worst = worst_moment(platform)
    assert worst is not None and worst[1].unproven_bytes == lied.bytes
    (choice,) = platform.persister.candidates()
    assert "possibly the permanent loss of b@1, made by an unproven operation" in choice.score.reason


def test_a_second_run_with_the_same_digest_proves_an_operation(platform: Platform) -> None:
    """From then on what it made counts as recomputable."""
    dataset = make_by_operation(platform, "shout")
    assert risk_of(platform).unproven == (dataset.ref,)
    lose_cache(platform)
    platform.restorer.ensure_cached([dataset.ref])
    assert (risk_of(platform).recomputable, risk_of(platform).unproven) == ((dataset.ref,), ())


def test_explain_shows_what_is_only_declared(platform: Platform) -> None:
    """Beside what would bring it back, and for machines."""
    dataset = make_by_operation(platform, "shout")
    explanation = explain(platform, "b")
    (loss,) = [texts for title, texts in explanation.paragraphs() if title == "If the cache were lost now"]
    assert "might be irrecoverable" in loss and "shout (version 1)" in loss and "not proven" in loss
    assert explanation.as_dict()["idempotence"] == "declared"
    json.dumps(explanation.as_dict())
    assert dataset.call is not None
    platform.catalog.record_reproduction(dataset.call, same=True)
    explanation = explain(platform, "b")
    assert explanation.as_dict()["idempotence"] == "proven" and not explanation.as_dict()["recovery"]["unproven"]
    platform.catalog.record_reproduction(dataset.call, same=False)
    assert explain(platform, "b").as_dict()["idempotence"] == "none"


@pytest.mark.parametrize("synchronous", [False, True])
def test_unproven_output_is_written_synchronously_by_a_setting(
    open_at: Callable[..., Platform], *, synchronous: bool
) -> None:
    """Then async_and_sync promises nothing that rests on a declaration; what is proven can be recomputed."""
    platform = open_at(sync_unproven=synchronous)
    first = make_by_operation(platform, "shout")
    assert first.persisted is synchronous and first.call is not None
    platform.catalog.record_reproduction(first.call, same=True)
    second = make(platform, "b2", "shout", ["a"], strategy=SAFE)
    assert not second.persisted and second.cache is CacheState.PRESENT


# ---- in the queue


def queue_of(platform: Platform) -> list[str]:
    """The paths in the order in which they would be persisted."""
    return [choice.ref.path for choice in platform.persister.candidates()]


@pytest.mark.parametrize("policy", ["paper", "value-density"])
def test_what_is_unproven_is_persisted_before_what_is_proven(open_at: Callable[..., Platform], policy: str) -> None:
    """After what cannot be recomputed; other things being equal."""
    platform = open_at(policy=policy)
    make(platform, "a", "load", strategy=SAFE)
    for path, operation in (("proven", "shout"), ("unproven", "liar"), ("random", "salt")):
        make(platform, path, operation, ["a"])
        measured(platform, operation, run=10.0, send=0.1)
    shout = platform.catalog.resolve("proven").call
    assert shout is not None
    platform.catalog.record_reproduction(shout, same=True)
    assert queue_of(platform) == ["random", "unproven", "proven"]


def test_what_leans_on_an_operation_that_was_found_nondeterministic_goes_to_the_head_too(platform: Platform) -> None:
    """It was made by honest operations, but from what nothing makes again; what comes from a persisted copy stays."""
    lied = make_by_operation(platform, "liar")
    make(platform, "c", "shout", ["b"])
    make(platform, "d", "count", ["c"])
    make(platform, "e", "count", ["a"])
    assert lied.call is not None
    moved = platform.catalog.record_reproduction(lied.call, same=False)
    assert [ref.path for ref in moved] == ["b", "c", "d"]
    assert queue_of(platform)[-1] == "e"
    (reason,) = [m.reason for m in platform.catalog.history(moved[2]) if m.event == "expedited"]
    assert reason.startswith("a source that its recomputation needs cannot be recomputed")
