"""Proving operations by a second run: on what, when, and what follows from it."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial

import pytest
from sqlalchemy import update
from typer.testing import Result

from springline.persistence.catalog.schema import db_now, generation, proof
from springline.persistence.commands import proofs
from springline.persistence.decisions.proof import ProofPlan, ProofThresholds
from springline.persistence.decisions.recovery import assess_risk
from springline.persistence.engine.prover import ProofOutcome, ProofVerdict
from springline.persistence.engine.runner import NoRunner
from springline.persistence.errors import OperationError
from springline.persistence.explain import explain
from springline.persistence.model.dataset import Call, Dataset, Idempotence, OperationResult, Strategy, TransferMethod
from springline.persistence.platform import Platform
from springline.testing.lines import LinesRunner
from springline.testing.lines import make_dataset as make
from tests.support.commands import invoke
from tests.support.datasets.stages import raise_
from tests.support.datasets.states import copies_in, damage, lose_cache

SAFE = Strategy.ASYNC_AND_SYNC


@pytest.fixture
def platform(open_at: Callable[..., Platform]) -> Platform:
    """A platform that proves whatever it can, however small, and looks at every step."""
    return eager(open_at())


def eager(platform: Platform, **bounds: object) -> Platform:
    """Let it look for something to prove at every step, from these bounds on: for all."""
    platform.prover.thresholds = ProofThresholds(**{"bytes": 0, "seconds": 0.0, **bounds})  # type: ignore[arg-type]
    platform.prover.poll_seconds = platform.prover.quiet_seconds = 0.0
    return platform


def make_by_operation(platform: Platform, operation: str, path: str = "b") -> Dataset:
    """The output of `operation` on a persisted source, written under async_and_sync."""
    make(platform, "a", "load", strategy=SAFE)
    return make(platform, path, operation, ["a"], strategy=SAFE)


def persist_output(platform: Platform, operation: str) -> Dataset:
    """The same, persisted as data with all else that waits, so that nothing is proved by sending an operation."""
    dataset = make_by_operation(platform, operation)
    platform.persister.small_bytes = 10**9
    assert platform.persister.drain().remaining == 0
    return dataset


def idempotence_of(platform: Platform, name: str) -> Idempotence:
    """What is known of an operation."""
    (operation,) = [o for o in platform.catalog.operations() if o.name == name]
    return operation.idempotence


def prove_next(platform: Platform) -> ProofOutcome:
    """The proof that the next step makes."""
    outcome = platform.prover.step()
    assert outcome is not None
    return outcome


def the_plan(platform: Platform) -> ProofPlan:
    """The only proof that is planned."""
    (plan,) = platform.prover.plan()
    return plan


def change_proofs(platform: Platform, **columns: object) -> None:
    """Set columns of every claim on a proof: as if time had passed."""
    with platform.catalog.write_transaction() as connection:
        connection.execute(update(proof).values(**columns))


# ---- what follows from it


def test_an_operation_that_gives_the_same_digest_is_proven(platform: Platform) -> None:
    """What it made, and makes from now on, is recomputable; nothing stays in the cache of the second run."""
    dataset = persist_output(platform, "shout")
    before = copies_in(platform.cache)
    outcome = prove_next(platform)
    assert (outcome.verdict, outcome.operation, outcome.witness) == (ProofVerdict.PROVEN, "shout", dataset.ref)
    assert idempotence_of(platform, "shout") is Idempotence.PROVEN and platform.prover.step() is None
    assert copies_in(platform.cache) == before
    make(platform, "c", "shout", ["a"], strategy=SAFE)
    lineage = platform.catalog.lineage_of_cache()
    assert assess_risk(lineage, platform.catalog.load_cost_model(lineage)).unproven == ()


def test_a_loss_that_a_declaration_hid_is_reported_and_then_healed_by_proof(
    platform: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    """An operation lies; the second run unmasks it, with a line in the log, and no later loss takes its output."""
    persist_output(platform, "liar")
    with caplog.at_level(logging.WARNING, "springline.prover"):
        assert prove_next(platform).verdict is ProofVerdict.NONDETERMINISTIC
    assert "liar (version 1) was run a second time" in caplog.text and "not idempotent" in caplog.text
    assert idempotence_of(platform, "liar") is Idempotence.NONE
    second = make(platform, "c", "liar", ["a"], strategy=SAFE)
    assert second.persisted, "from now on it is written before it is committed"
    lose_cache(platform)
    assert not platform.restorer.restore([second.ref]).irrecoverable


def test_what_waits_when_an_operation_is_found_nondeterministic_goes_first_with_all_that_leans_on_it(
    platform: Platform,
) -> None:
    """By hand a proof may be run while something waits; its failure sends the output to the head, and below it."""
    first = make_by_operation(platform, "liar")
    below = make(platform, "c", "shout", ["b"], strategy=SAFE)
    plan = next(plan for plan in platform.prover.plan() if plan.operation == "liar")
    outcome = platform.prover.prove(plan, interruptible=False)
    assert outcome is not None and outcome.verdict is ProofVerdict.NONDETERMINISTIC and "2 datasets" in outcome.summary
    assert platform.catalog.get(first.ref).expedited and platform.catalog.get(below.ref).expedited
    assert [moment.event for moment in platform.catalog.history(first.ref)][-1] == "nondeterministic"


def test_a_second_run_on_a_damaged_source_proves_nothing(platform: Platform, runner: LinesRunner) -> None:
    """The operation is not blamed for it; it is tried again later."""
    persist_output(platform, "shout")
    damage(platform.cache, platform.catalog.resolve("a").cache_location)
    assert prove_next(platform).verdict is ProofVerdict.FAILED
    assert idempotence_of(platform, "shout") is Idempotence.DECLARED
    assert platform.prover.step() is None, "it pauses"


def test_an_operation_that_fails_is_tried_again_after_a_pause(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is stored, and shown with what is planned."""
    persist_output(platform, "shout")
    with monkeypatch.context() as patch:
        patch.setattr(platform.runner, "run", raise_(OperationError("no Spark today")))
        assert prove_next(platform).verdict is ProofVerdict.FAILED
    assert "no Spark today" in platform.prover.proofs.error_of("shout", "1")
    assert platform.prover.step() is None
    change_proofs(platform, not_before=0.0)
    assert prove_next(platform).verdict is ProofVerdict.PROVEN


# ---- when, and what


def test_nothing_is_proved_while_something_waits_to_be_persisted(platform: Platform, runner: LinesRunner) -> None:
    """Also not while somebody writes: the machine is not idle."""
    make_by_operation(platform, "shout")
    runner.executed_operations.clear()
    assert platform.prover.step() is None
    platform.persister.small_bytes = 10**9
    assert platform.persister.drain().remaining == 0
    with platform.store.write("c", strategy=SAFE) as writing:
        assert platform.prover.step() is None
        writing.mark_complete(platform.runner.run(Call("load", "1"), [], writing.uri))
    assert runner.executed_operations == ["load"]
    assert prove_next(platform).verdict is ProofVerdict.PROVEN


@pytest.mark.parametrize(
    ("bounds", "planned"),
    [
        ({"bytes": 10**6, "seconds": 10.0}, False),
        ({"bytes": 100, "seconds": 10.0}, True),
        ({"bytes": 10**6, "seconds": 0.01}, True),
    ],
)
def test_only_operations_with_a_large_or_dear_output_are_proved(
    open_at: Callable[..., Platform], bounds: dict[str, object], *, planned: bool
) -> None:
    """By the settings; the default leaves small things alone."""
    platform = eager(open_at(), **bounds)
    persist_output(platform, "shout")
    assert bool(platform.prover.plan()) is planned
    assert (platform.prover.step() is not None) is planned


def test_a_process_that_may_not_or_cannot_run_an_operation_proves_nothing(open_at: Callable[..., Platform]) -> None:
    """By the settings, or without the code: that leaves the proof to others. What would be proved is still shown."""
    platform = eager(open_at(prove=False))
    persist_output(platform, "shout")
    assert platform.prover.step() is None and platform.prover.plan()
    other = eager(open_at())
    other.prover.runner = NoRunner()
    assert other.prover.step() is None and not other.prover.proofs.error_of("shout", "1")


def test_nothing_is_proved_between_two_tasks_of_a_dag_run(platform: Platform) -> None:
    """But once no commit has happened for a while."""
    persist_output(platform, "shout")
    platform.prover.quiet_seconds = 60.0
    assert platform.prover.step() is None
    with platform.catalog.write_transaction() as connection:
        connection.execute(update(generation).values(committed_at=generation.c.committed_at - 60.0))
    proof = platform.prover.step()
    assert proof is not None and proof.verdict is ProofVerdict.PROVEN


def test_the_witness_is_the_largest_that_can_be_recomputed_now(platform: Platform) -> None:
    """A larger one whose source is gone is no witness; what none can be made of says what it waits for."""
    make_by_operation(platform, "shout")
    make(platform, "long", lines=[f"a longer line {i}" for i in range(500)])
    large = make(platform, "d", "shout", ["long"], strategy=SAFE)
    assert the_plan(platform).witness == large.ref
    lose_cache(platform)
    assert (the_plan(platform).witness.path, the_plan(platform).waits_for) == ("b", "")


def test_a_proof_waits_for_room_and_evicts_nothing(open_at: Callable[..., Platform]) -> None:
    """It says what it waits for."""
    platform = eager(open_at(cache_capacity=1700))
    persist_output(platform, "shout")
    assert the_plan(platform).waits_for.startswith("free space in the cache")
    before = platform.catalog.cache_used()
    assert platform.prover.step() is None and platform.catalog.cache_used() == before


# ---- beside others


def test_an_operation_is_proved_by_one_worker_at_a_time(open_at: Callable[..., Platform], runner: LinesRunner) -> None:
    """Whoever comes second goes on with something else."""
    first, second = eager(open_at()), eager(open_at())
    persist_output(first, "shout")
    (plan,) = first.prover.plan()
    outcomes: list[ProofOutcome | None] = []
    run = runner.run

    def run_beside(call: Call, sources: Sequence[str], output: str) -> OperationResult:
        outcomes.append(second.prover.prove(plan))
        return run(call, sources, output)

    runner.run = run_beside  # type: ignore[method-assign]
    assert prove_next(first).verdict is ProofVerdict.PROVEN
    assert outcomes == [None]


def test_a_killed_prover_leaves_nothing_behind(platform: Platform) -> None:
    """Once its lease has run out the next look removes what it wrote, and the proof may be run again after a pause."""
    dataset = persist_output(platform, "shout")
    copies = copies_in(platform.cache)
    scratch = f"{dataset.ref.path}/@1-0_dead"
    assert platform.prover.proofs.claim("shout", "1", "a worker that dies", scratch) is not None
    platform.runner.run(Call("shout", "1"), [platform.cache.uri(dataset.cache_location)], platform.cache.uri(scratch))
    assert platform.prover.step() is None and scratch in copies_in(platform.cache)
    change_proofs(platform, lease_until=db_now() - 1)
    assert platform.prover.step() is None
    assert copies_in(platform.cache) == copies
    assert "stopped responding" in platform.prover.proofs.error_of("shout", "1")
    change_proofs(platform, not_before=0.0)
    assert prove_next(platform).verdict is ProofVerdict.PROVEN


def test_a_prover_that_is_stopped_clears_up(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scratch goes, its claim is given back, and nothing holds its sources."""
    persist_output(platform, "shout")
    copies = copies_in(platform.cache)
    run = platform.runner.run

    def stop(call: Call, sources: Sequence[str], output: str) -> OperationResult:
        run(call, sources, output)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(platform.runner, "run", stop)
        with pytest.raises(KeyboardInterrupt):
            platform.prover.step()
    assert copies_in(platform.cache) == copies and not platform.catalog.refs_being_read()
    platform.prover._next_poll_at = float("-inf")
    assert prove_next(platform).verdict is ProofVerdict.PROVEN


class Stoppable(LinesRunner):
    """A runner whose runs go on until they are interrupted."""

    def __init__(self, runner: LinesRunner, on_start: Callable[[], object]) -> None:
        self.__dict__.update(runner.__dict__)
        self._on_start = on_start
        self._ended = threading.Event()

    def run(self, call: Call, sources: Sequence[str], output: str) -> OperationResult:
        super().run(call, sources, output)
        self._on_start()
        assert self._ended.wait(30)
        raise OperationError(f"{call.name}: interrupted")

    def interrupt(self) -> None:
        self._ended.set()


def test_a_proof_gives_way_to_what_comes_to_be_persisted(platform: Platform, open_at: Callable[..., Platform]) -> None:
    """The run is ended, the operation is no worse for it, and is proved when it is quiet again."""
    persist_output(platform, "shout")
    copies = copies_in(platform.cache)
    other = open_at()
    platform.prover.runner = Stoppable(platform.runner, lambda: make(other, "c", "load"))  # type: ignore[arg-type]
    assert prove_next(platform).verdict is ProofVerdict.INTERRUPTED
    assert copies_in(platform.cache) == sorted([*copies, "c/@1"])
    platform.prover.runner = platform.runner
    assert platform.prover.step() is None, "there is something to persist"
    (outcome,) = platform.persister.drain().outcomes
    assert (outcome.ref.path, outcome.method) == ("c", TransferMethod.DATA)
    assert prove_next(platform).verdict is ProofVerdict.PROVEN


# ---- asked for


def command_on(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command `prove` on a platform."""
    monkeypatch.setattr(proofs, "platform_session", lambda *, runs_operations: nullcontext(platform))
    return partial(invoke, "operation", "prove")


def test_a_proof_can_be_asked_for_by_hand(open_at: Callable[..., Platform], monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the output and whatever waits; first shown, then done."""
    platform = open_at()
    prove_by_hand = command_on(platform, monkeypatch)
    make_by_operation(platform, "shout")
    result = prove_by_hand("shout", "--dry-run")
    assert result.exit_code == 0 and result.output.startswith("shout (version 1) is run a second time on a@1")
    assert idempotence_of(platform, "shout") is Idempotence.DECLARED
    result = prove_by_hand("shout")
    assert result.exit_code == 0 and "it is proven idempotent" in result.output
    assert prove_by_hand().output == "No operation needs a proof.\n"


def test_a_command_that_unmasks_an_operation_says_so_by_its_exit_status(
    open_at: Callable[..., Platform], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For scripts; in JSON too. An unknown operation is refused."""
    platform = open_at()
    prove_by_hand = command_on(platform, monkeypatch)
    make_by_operation(platform, "liar")
    error = prove_by_hand("lair").exception
    assert getattr(error, "exit_status", 0) == 2 and "liar" in str(error)
    result = prove_by_hand("liar", "--json")
    (row,) = json.loads(result.stdout)
    assert (result.exit_code, row["operation"], row["witness"]) == (3, "liar", "b@1")
    assert row["verdict"] == "nondeterministic"


def test_explain_says_whether_an_operation_will_be_proved(open_at: Callable[..., Platform]) -> None:
    """Of itself, by hand only, or not any more."""
    platform = open_at()
    make_by_operation(platform, "shout")
    assert "small and cheap" in explain(platform, "b").proof
    assert explain(eager(platform), "b").proof.startswith("An idle persister will run shout a second time")
    assert "SPRINGLINE_PROVE" in explain(open_at(prove=False), "b").proof
    platform.prover.prove(the_plan(platform), interruptible=False)
    assert explain(platform, "b").proof == ""
