"""The orders of persisting compared: every policy persists the same lineages and meets the same faults.

At a thousand random moments a run the whole cache is lost. What that costs: seconds of running again what is
wanted or still to be read, and bytes that nothing can bring back. The link is as wide as makes the load
asked for: bytes to persist in the time recorded, over what the link can carry. Under `async_and_sync` what
cannot be recomputed is safe before anybody sees it; under `async_store` it waits in the queue like the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from random import Random
from statistics import fmean

from benchmarks.datasets.record import Recording, load, read
from benchmarks.datasets.simulation import Loss, Setup, losses, not_recomputable, simulate
from benchmarks.datasets.synthetic import SHAPES, generate
from benchmarks.report import Goal, Report, Row
from springline.persistence.decisions.priority import (
    IRRECOVERABLE_SECONDS,
    IRRECOVERABLE_SECONDS_PER_BYTE,
    Policy,
    Score,
)
from springline.persistence.model.cost_model import CostModel
from springline.persistence.model.dataset import Ref
from springline.persistence.model.lineage import Lineage
from springline.persistence.policies import load_policy
from springline.persistence.settings import Settings

RECORDED = Path(__file__).parent / "recorded" / "etl.json"
OURS = "value-density"
PEERS = ("paper", "fifo", "hash-order", "edge", "lrc", "random")
_SEEDS = {"quick": 3, "full": 15}
_LOADS = (0.5, 1.0, 2.0)
_MOMENTS = 1000
_WEIGHTS = (-4.0, -2.0, 1.0, 0.1)  # the default settings
_GOAL = "value-density's {what} at or below {peer}'s under {strategy}"


@dataclass(frozen=True)
class RandomOrder:
    """The floor: an order of its own for every seed."""

    seed: int
    name: str = "random"
    local: bool = True

    def score(self, ref: Ref, lineage: Lineage, costs: CostModel, now: float) -> Score:
        digest = blake2b(f"{self.seed} {ref}".encode(), digest_size=6).digest()
        return Score(float(int.from_bytes(digest, "big")), {}, "at random")


@dataclass(frozen=True)
class Scenario:
    """One lineage, by name, as recorded or drawn with a seed; the strategy, what may be sent, and the load."""

    lineage: str
    strategy: str
    sends: str
    load: float
    seed: int


@dataclass(frozen=True)
class Outcome:
    """What one policy came to in one scenario."""

    scenario: Scenario
    policy: str
    bandwidth: float
    recovery: float  # expected seconds of running again after a fault
    recovery_95: float
    irrecoverable_bytes: float  # expected, for good
    priced: float  # both, with what is gone counted in seconds as value-density counts it
    byte_seconds: float  # wanted and only in the cache, over the whole time
    as_operations: int


def run(size: str) -> Report:
    """Simulate every scenario under every policy, and compare."""
    outcomes = list(_outcomes(_SEEDS[size]))
    return Report("policies", size, _rows(outcomes), _goals(outcomes), _remarks(outcomes), _summary(outcomes))


def _outcomes(seeds: int) -> Iterator[Outcome]:
    recordings = {("recorded", seed): load(RECORDED) for seed in range(seeds)}
    recordings |= {(shape, seed): read(generate(shape, seed)) for shape in SHAPES for seed in range(seeds)}
    for (lineage, seed), recording in recordings.items():
        for strategy in ("async_and_sync", "async_store"):
            for load_ in _LOADS:
                yield from _compare(recording, Scenario(lineage, strategy, "data", load_, seed))
        yield from _compare(recording, Scenario(lineage, "async_and_sync", "data or operation", 1.0, seed))


def _compare(recording: Recording, scenario: Scenario) -> Iterator[Outcome]:
    """Every policy in one scenario, with the same faults."""
    synchronous = scenario.strategy == "async_and_sync"
    safe = not_recomputable(recording) if synchronous else frozenset()
    size = sum(
        recorded.bytes for recorded in recording.datasets if recorded.persist_requested and recorded.ref not in safe
    )
    bandwidth = size / max(recording.datasets[-1].committed_at, 1.0) / scenario.load
    setup = Setup(bandwidth, operations=scenario.sends != "data", synchronous=synchronous)
    traces = {name: simulate(recording, _policy(name, scenario.seed), setup) for name in (OURS, *PEERS)}
    end = max(trace.ended_at for trace in traces.values())
    random = Random(f"{scenario}")
    moments = [random.uniform(0, end) for _ in range(_MOMENTS)]
    for name, trace in traces.items():
        all_losses = losses(recording, trace, moments)
        seconds = sorted(loss.recompute_seconds for loss in all_losses)
        yield Outcome(
            scenario,
            name,
            bandwidth,
            recovery=fmean(seconds),
            recovery_95=seconds[math.ceil(0.95 * len(seconds)) - 1],
            irrecoverable_bytes=fmean(loss.irrecoverable_bytes for loss in all_losses),
            priced=fmean(map(_priced, all_losses)),
            byte_seconds=fmean(loss.exposed_bytes for loss in all_losses) * end,
            as_operations=trace.as_operations,
        )


def _policy(name: str, seed: int) -> Policy:
    if name == "random":
        return RandomOrder(seed)
    return load_policy(Settings(policy_weights=_WEIGHTS, mean_fault_seconds=7 * 86400), name)  # type: ignore[call-arg]


def _priced(loss: Loss) -> float:
    return (
        loss.recompute_seconds
        + loss.irrecoverable * IRRECOVERABLE_SECONDS
        + loss.irrecoverable_bytes * IRRECOVERABLE_SECONDS_PER_BYTE
    )


def _rows(outcomes: Sequence[Outcome]) -> list[Row]:
    """The mean over the seeds, for every lineage, strategy, load and policy."""
    rows: list[Row] = []
    for (lineage, strategy, sends, load_, policy), group in _grouped(outcomes).items():
        rows.append(
            {
                "lineage": lineage,
                "strategy": strategy,
                "sends": sends,
                "load": load_,
                "policy": policy,
                "runs": len(group),
                "bandwidth_mb_s": round(fmean(o.bandwidth for o in group) / 1e6, 2),
                "expected_recovery_s": round(fmean(o.recovery for o in group), 3),
                "recovery_95_s": round(fmean(o.recovery_95 for o in group), 3),
                "expected_gone_mb": round(fmean(o.irrecoverable_bytes for o in group) / 1e6, 3),
                "priced_s": round(fmean(o.priced for o in group), 1),
                "at_risk_gb_s": round(fmean(o.byte_seconds for o in group) / 1e9, 1),
                "as_operations": round(fmean(o.as_operations for o in group), 1),
            }
        )
    return rows


def _summary(outcomes: Sequence[Outcome]) -> list[Row]:
    """One row a policy, as ratios to value-density over all lineages and loads (above 1: worse than it)."""
    rows: list[Row] = []
    for strategy, sends in dict.fromkeys((o.scenario.strategy, o.scenario.sends) for o in outcomes):
        part = [o for o in outcomes if (o.scenario.strategy, o.scenario.sends) == (strategy, sends)]
        for policy in (OURS, *PEERS):
            recovery = _ratios(part, policy, "recovery")
            rows.append(
                {
                    "strategy": strategy,
                    "sends": sends,
                    "policy": policy,
                    "recovery": _geometric(recovery),
                    "least": min(recovery),
                    "most": max(recovery),
                    "95th": _geometric(_ratios(part, policy, "recovery_95")),
                    "gone MB": fmean(o.irrecoverable_bytes for o in part if o.policy == policy) / 1e6,
                    "priced": _geometric(_ratios(part, policy, "priced")),
                    "byte-seconds": _geometric(_ratios(part, policy, "byte_seconds")),
                    "runs below ours": f"{_below(part, policy, 'recovery')} of {len(part) // (1 + len(PEERS))}",
                }
            )
    return rows


def _goals(outcomes: Sequence[Outcome]) -> list[Goal]:
    """Under the default strategy in every lineage and load; under the other, where bytes can be lost, on the whole."""
    goals = []
    default = [o for o in outcomes if o.scenario.strategy == "async_and_sync"]
    other = [o for o in outcomes if o.scenario.strategy == "async_store"]
    for peer in PEERS:
        worst = 1 / min(_ratios(default, peer, "recovery"))
        goal = _GOAL.format(what="expected recovery time", peer=peer, strategy="async_and_sync, the least good case")
        goals.append(Goal(goal, round(worst, 3), "<= 1", worst <= 1))
    for peer in PEERS:
        mean = 1 / _geometric(_ratios(other, peer, "priced"))
        goal = _GOAL.format(what="expected loss", peer=peer, strategy="async_store, mean of all cases")
        goals.append(Goal(goal, round(mean, 3), "<= 1", mean <= 1))
    return goals


def _remarks(outcomes: Sequence[Outcome]) -> list[str]:
    """Where value-density is not the best, by name."""
    remarks = [
        f"lineages: recorded ({load(RECORDED).about}), and drawn ones: {', '.join(SHAPES)}; seeds from 0",
        "ratios to value-density, above 1 is worse; under async_store compare `gone MB` and `priced`: "
        "what is gone for good takes no time to run again",
    ]
    for what, strategy, title in (
        ("recovery", "async_and_sync", "expected recovery time"),
        ("priced", "async_store", "expected loss (seconds, and bytes for good priced in seconds)"),
    ):
        part = [o for o in outcomes if o.scenario.strategy == strategy]
        ours = _means(part, OURS, what)
        better = [
            f"{peer} by {1 - mean / ours[case]:.1%} on {case[0]} at load {case[2]:g}, {case[1]}"
            for peer in PEERS
            for case, mean in _means(part, peer, what).items()
            if mean < ours[case]
        ]
        cases = "; ".join(better) or "nowhere"
        remarks.append(f"{strategy}, {title}: value-density is beaten (mean of the seeds) {cases}")
    return remarks


def _ratios(outcomes: Sequence[Outcome], policy: str, what: str) -> list[float]:
    """The policy's mean over value-density's, for every lineage and load."""
    ours = _means(outcomes, OURS, what)
    return [_ratio(mean, ours[case]) for case, mean in _means(outcomes, policy, what).items()]


def _means(outcomes: Sequence[Outcome], policy: str, what: str) -> dict[tuple[str, str, float], float]:
    groups: dict[tuple[str, str, float], list[float]] = {}
    for o in outcomes:
        if o.policy == policy:
            case = (o.scenario.lineage, o.scenario.sends, o.scenario.load)
            groups.setdefault(case, []).append(float(getattr(o, what)))
    return {case: fmean(values) for case, values in groups.items()}


def _ratio(value: float, ours: float) -> float:
    return value / ours if ours else 1.0 if value == ours else math.inf


def _below(outcomes: Sequence[Outcome], policy: str, what: str) -> int:
    """In how many single runs the policy did better."""
    ours = {o.scenario: getattr(o, what) for o in outcomes if o.policy == OURS}
    return sum(getattr(o, what) < ours[o.scenario] * (1 - 1e-9) for o in outcomes if o.policy == policy)


def _geometric(ratios: Iterable[float]) -> float:
    return math.exp(fmean(math.log(max(ratio, 1e-9)) for ratio in ratios))


def _grouped(outcomes: Sequence[Outcome]) -> dict[tuple[str, str, str, float, str], list[Outcome]]:
    groups: dict[tuple[str, str, str, float, str], list[Outcome]] = {}
    for o in outcomes:
        s = o.scenario
        groups.setdefault((s.lineage, s.strategy, s.sends, s.load, o.policy), []).append(o)
    return groups
