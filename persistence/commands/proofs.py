"""The command that proves operations manually."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import asdict
from typing import Annotated

import typer

from springline.persistence.commands.arguments import EXIT_CONDITION_FAILED, DryRun, Json, platform_session
from springline.persistence.decisions.proof import ProofPlan, ProofThresholds
from springline.persistence.engine.prover import ProofOutcome, ProofVerdict
from springline.persistence.errors import UsageError
from springline.persistence.platform import Platform
from springline.persistence.text.formatting import format_alternatives
from springline.persistence.text.terminal import print, print_json, progress

_UNBOUNDED = ProofThresholds(0, 0.0)


def prove(
    operations: Annotated[
        list[str],
        typer.Argument(help="Operations to prove, regardless of size and cost; default: those above the thresholds"),
    ] = [],  # noqa: B006
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Run operations that are only declared idempotent a second time, now, and compare their outputs."""
    with platform_session(runs_operations=True) as platform:
        platform.store.register_operations(platform.runner.operations().values())
        plans = _select_plans(platform, operations)
        proofs = []
        with progress("running operations a second time", quiet=as_json) as update_progress:
            for number, plan in enumerate(() if dry_run else plans, 1):
                update_progress(f"running {plan.operation} a second time ({number} of {len(plans)})")
                if (proof := _prove(platform, plan)) is not None:
                    proofs.append(proof)
        if as_json:
            print_json([_proof_fields(each) for each in (plans if dry_run else proofs)])
        elif not plans:
            print("No operation needs a proof.")
        else:
            for line in map(_format_plan, plans) if dry_run else (proof.summary for proof in proofs):
                print(line)
    if any(proof.verdict is not ProofVerdict.PROVEN for proof in proofs):
        raise typer.Exit(EXIT_CONDITION_FAILED)


def _select_plans(platform: Platform, names: Collection[str]) -> list[ProofPlan]:
    if not names:
        return list(platform.prover.plan())
    operation_names = {operation.name for operation in platform.catalog.operations()}
    if unknown := [name for name in names if name not in operation_names]:
        raise UsageError(
            f"operation {unknown[0]!r} is not in the catalog; it has: "
            f"{format_alternatives(unknown[0], operation_names)}"
        )
    return [plan for plan in platform.prover.plan(_UNBOUNDED) if plan.operation in names]


def _prove(platform: Platform, plan: ProofPlan) -> ProofOutcome | None:
    if plan.waits_for:
        print(f"{plan.operation}: waits for {plan.waits_for}", file=sys.stderr)
        return None
    proof = platform.prover.prove(plan, interruptible=False)
    if proof is None:
        error = platform.prover.proofs.error_of(plan.operation, plan.version)
        reason = (
            f"the last attempt failed, and the next one is delayed: {error}"
            if error
            else "another worker is running it"
        )
        print(f"{plan.operation}: not run a second time: {reason}", file=sys.stderr)
    return proof


def _format_plan(plan: ProofPlan) -> str:
    return f"{plan.summary}; waits for {plan.waits_for}" if plan.waits_for else plan.summary


def _proof_fields(plan_or_proof: ProofPlan | ProofOutcome) -> dict[str, object]:
    row = asdict(plan_or_proof)
    if isinstance(plan_or_proof, ProofPlan):
        row["predicted"] = plan_or_proof.predicted.seconds if plan_or_proof.predicted else None
    row["witness"] = str(plan_or_proof.witness)
    return row
