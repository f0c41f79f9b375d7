"""The command that proves operations by hand."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import asdict
from typing import Annotated

import typer

from springline.persistence.commands.arguments import NOT_SO, Dry, Json, opened
from springline.persistence.decisions.proof import Bounds, ProofPlan
from springline.persistence.engine.prover import Proof, Verdict
from springline.persistence.errors import UsageError
from springline.persistence.platform import Platform
from springline.persistence.text.formatting import say_known
from springline.persistence.text.terminal import print, print_json, progress

_ALL = Bounds(0, 0.0)


def prove(
    operations: Annotated[
        list[str], typer.Argument(help="Operations to prove, however small and cheap; none: those that are due")
    ] = [],  # noqa: B006
    dry_run: Dry = False,
    as_json: Json = False,
) -> None:
    """Run operations a second time that are only declared idempotent, now, and compare what they make."""
    with opened(runs=True) as platform:
        platform.store.register_operations(platform.runner.operations().values())
        plans = _chosen(platform, operations)
        done = []
        with progress("running operations a second time", quiet=as_json) as say:
            for number, plan in enumerate(() if dry_run else plans, 1):
                say(f"running {plan.operation} a second time ({number} of {len(plans)})")
                if (proof := _prove(platform, plan)) is not None:
                    done.append(proof)
        if as_json:
            print_json([_row(each) for each in (plans if dry_run else done)])
        elif not plans:
            print("Nothing is to be proven.")
        else:
            for told in map(_say, plans) if dry_run else (proof.words for proof in done):
                print(told)
    if any(proof.verdict is not Verdict.PROVEN for proof in done):
        raise typer.Exit(NOT_SO)


def _chosen(platform: Platform, names: Collection[str]) -> list[ProofPlan]:
    if not names:
        return list(platform.prover.plan())
    known = {operation.name for operation in platform.catalog.operations()}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"operation {unknown[0]!r} is not in the catalog; there is: {say_known(unknown[0], known)}")
    return [plan for plan in platform.prover.plan(_ALL) if plan.operation in names]


def _prove(platform: Platform, plan: ProofPlan) -> Proof | None:
    if plan.waits_for:
        print(f"{plan.operation}: waits for {plan.waits_for}", file=sys.stderr)
        return None
    proof = platform.prover.prove(plan, yields=False)
    if proof is None:
        error = platform.prover.proofs.error_of(plan.operation, plan.version)
        why = f"it pauses, since the last try failed: {error}" if error else "another worker is at it"
        print(f"{plan.operation}: not run a second time: {why}", file=sys.stderr)
    return proof


def _say(plan: ProofPlan) -> str:
    return f"{plan.words}; waits for {plan.waits_for}" if plan.waits_for else plan.words


def _row(told: ProofPlan | Proof) -> dict[str, object]:
    row = asdict(told)
    if isinstance(told, ProofPlan):
        row["predicted"] = told.predicted.seconds if told.predicted else None
    row["witness"] = str(told.witness)
    return row
