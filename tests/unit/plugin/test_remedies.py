"""What would make a dataset safe: to persist it, or that its operation can be relied on."""

from __future__ import annotations

import pytest

from springline.airflow.lineage.queue import seconds_until_empty
from springline.airflow.lineage.remedies import irrecoverable_alternative, remedy_sentence, unproven_alternative
from springline.persistence.decisions.persist_status import PersistState, PersistStatus
from springline.persistence.decisions.priority import PaperPolicy
from springline.persistence.decisions.proof import ProofPlan
from springline.persistence.decisions.queue_plan import plan_queue
from springline.persistence.model.cost_model import CostModel, Measurement
from springline.persistence.model.dataset import Operation, Ref
from tests.support.datasets.lineages import cached, lineage_of, ref

AWAY = "the under-store does not answer"


@pytest.mark.parametrize(
    ("state", "can_expedite", "away", "sentence"),
    [
        (PersistState.QUEUED, True, "", "Persist it now, or wait: so it is."),
        (PersistState.QUEUED, False, "", "Wait: so it is."),
        (PersistState.COPYING, False, "", "Wait: so it is."),
        (PersistState.NOT_REQUESTED, True, "", "Persist it now: so it is."),
        (PersistState.NOT_REQUESTED, True, AWAY, "Bring the under-store back; it is persisted then."),
        (PersistState.PERSISTED, False, AWAY, "Bring the under-store back; its copy counts again then."),
    ],
)
def test_a_copy_in_the_under_store_makes_everything_safe(
    state: PersistState, can_expedite: bool, away: str, sentence: str
) -> None:
    """As soon as there is one to be had."""
    assert remedy_sentence(PersistStatus(state, "so it is", can_expedite), away) == sentence


def test_an_operation_that_cannot_be_relied_on_is_named() -> None:
    """Or the dataset that one cannot be recomputed without, unless it is hidden."""
    lineage = lineage_of(
        cached("x", by="dice"), cached("y", "x"), cached("none", by=None), cached("old", by="old"),
        old=Operation("old", "v1", idempotent=True, runnable=False),
    )  # fmt: skip
    for name, obstacles, sentence in (
        ("x", [ref("x")], "Or make its operation dice idempotent."),
        ("y", [ref("x")], "Or persist x@1, from which it can be recomputed."),
        ("y", [ref("x"), Ref("hidden:1", 1)], ""),
        ("none", [ref("none")], ""),
        ("old", [ref("old")], "Or restore the version v1 of its operation old."),
        ("y", [], ""),
    ):
        assert irrecoverable_alternative(ref(name), obstacles, lineage) == sentence


def test_a_proof_is_pending_or_one_runs_it_oneself() -> None:
    """Without a name of a dataset, since the operation makes those of others too."""
    shout = Operation("shout", "v1", idempotent=True)
    ready = ProofPlan("shout", "v1", ref("secret"), 9, None, "", "shout is run a second time")
    blocked = ProofPlan("shout", "v1", ref("secret"), 9, None, "secret@1 to be available", "")
    assert unproven_alternative([shout], [ready], is_prover_enabled=True) == (
        "Proof of shout pending: an idle persister runs it a second time."
    )
    sentence = unproven_alternative([shout], [blocked], is_prover_enabled=True)
    assert sentence.startswith("Proof of shout pending: ") and "secret" not in sentence
    for plans, enabled in (([], True), ([ready], False)):
        sentence = unproven_alternative([shout], plans, is_prover_enabled=enabled)
        assert sentence == "Run `springline operation prove shout`."
    assert unproven_alternative([], [ready], is_prover_enabled=True) == ""


def test_the_queue_is_empty_when_what_is_planned_and_the_rest_are_sent() -> None:
    """The rest by its bytes; nothing is predicted before the link was measured."""
    lineage = lineage_of(cached("a", bytes=1_000_000), cached("b", bytes=3_000_000))
    costs = CostModel(link=(Measurement(1_000_000, 1.0),))
    policy = PaperPolicy((-4.0, -2.0, 1.0, 0.1))
    plan = plan_queue([ref("a"), ref("b")], lineage, costs, policy, small_bytes=1 << 40, now=0.0)
    assert seconds_until_empty(plan, lineage, costs, 4_000_000) == pytest.approx(4.0)
    assert seconds_until_empty(plan, lineage, costs, 9_000_000) == pytest.approx(9.0)
    assert seconds_until_empty([], lineage, costs, 0) == 0.0
    unmeasured = plan_queue([ref("a")], lineage, CostModel(), policy, small_bytes=1 << 40, now=0.0)
    assert seconds_until_empty(unmeasured, lineage, CostModel(), 4_000_000) is None
