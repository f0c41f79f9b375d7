"""Priority: which unpersisted generation is persisted next; every score explains itself.

`paper` is the formula of the paper with a, b < 0 < c, d. `value-density` is the expected recovery time saved per
second of transfer. Installed packages add others, see `persistence/policies.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import expm1
from typing import Protocol

from springline.persistence.decisions.transfer import plan_transfer
from springline.persistence.model.cost_model import CostModel
from springline.persistence.model.dataset import Idempotence, Phase, Ref
from springline.persistence.model.lineage import Lineage
from springline.persistence.text.formatting import format_bytes, format_list, format_seconds

IRRECOVERABLE_SECONDS_PER_BYTE = 1e-3  # cost of an irrecoverable byte: 1 GB counts as much as 12 days of recomputing
IRRECOVERABLE_SECONDS = 3600.0  # plus this for every such generation, regardless of its size
UNPROVEN_SHARE = 0.1  # share of that for unproven ones: one declaration in ten is assumed to be wrong
_DEFAULT_LINK_RATE = 50e6  # bytes per second, until the link has been measured
_DEFAULT_RUN_RATE = 50e6  # bytes per second of an operation that was never measured
_MIN_SEND_SECONDS = 1e-3  # minimum duration of a transfer, in seconds


@dataclass(frozen=True)
class Score:
    """A priority, with its explanation.

    Args:
        value: higher values are persisted first.
        terms: the numbers it was computed from, by name.
        reason: the explanation for people, without the dataset's name.

    Example:
        >>> Score(-2_000.0, {"-bytes": -2_000.0}, "it has 2 kB").reason
        'it has 2 kB'
    """

    value: float
    terms: Mapping[str, float]
    reason: str


class Policy(Protocol):
    """An order of persisting: any object with a `name`, a flag `local`, and a method `score`.

    `local`: the score depends on the dataset alone, so that a stored score stays valid.

    Example:
        >>> class Smallest:
        ...     name, local = "smallest", True
        ...
        ...     def score(self, ref, lineage, costs, now):
        ...         size = lineage.datasets[ref].bytes
        ...         return Score(-float(size), {"-bytes": -float(size)}, f"it has {format_bytes(size)}")
        >>> policy: Policy = Smallest()
        >>> ref = Ref("logs", 1)
        >>> policy.score(ref, Lineage({ref: Dataset(ref, bytes=5_000)}, {}), CostModel(), now=0.0).reason
        'it has 5 kB'
    """

    @property
    def name(self) -> str:
        """The name by which it is selected."""

    @property
    def local(self) -> bool:
        """Whether the score depends on the dataset alone, so that a stored score stays valid."""

    def score(self, ref: Ref, lineage: Lineage, costs: CostModel, now: float) -> Score:
        """Return the priority of `ref` at `now`, in seconds since 1970."""


def order_by_priority(
    refs: Iterable[Ref], lineage: Lineage, costs: CostModel, policy: Policy, now: float
) -> list[tuple[Ref, Score]]:
    """Return generations in the order in which a policy persists them.

    Args:
        refs: the queued generations.
        lineage: the datasets of `refs`, and their ancestors.
        costs: the cost model.
        policy: computes the scores.
        now: seconds since 1970.

    Returns:
        Each with its score, next one first: the expedited ones, then by score, then by name.

    Example:
        >>> class Smallest:
        ...     name, local = "smallest", True
        ...
        ...     def score(self, ref, lineage, costs, now):
        ...         return Score(-float(lineage.datasets[ref].bytes), {}, "small")
        >>> waiting = {Ref(path, 1): Dataset(Ref(path, 1), bytes=size) for path, size in (("a", 9), ("b", 2))}
        >>> [str(ref) for ref, _ in order_by_priority(waiting, Lineage(waiting, {}), CostModel(), Smallest(), now=0.0)]
        ['b@1', 'a@1']
    """
    scored = [(ref, policy.score(ref, lineage, costs, now)) for ref in refs]
    return sorted(scored, key=lambda pair: (not lineage.datasets[pair[0]].expedited, -pair[1].value, pair[0]))


@dataclass(frozen=True)
class PaperPolicy:
    """P = a·x1 + b·x2 + c·x3 + d·x4: operation recorded, repeatable, checkpoint, times read.

    An unproven operation, declared idempotent but not confirmed by a second run, counts half as repeatable.
    """

    weights: tuple[float, float, float, float]
    name: str = "paper"
    local: bool = True

    def score(self, ref: Ref, lineage: Lineage, costs: CostModel, now: float) -> Score:
        dataset = lineage.datasets[ref]
        operation = lineage.operation_of(ref)
        recorded = operation is not None and operation.runnable
        repeatable = operation is not None and operation.repeatable
        declared = repeatable and operation is not None and operation.idempotence is Idempotence.DECLARED
        x = (float(recorded), 0.5 if declared else float(repeatable), float(dataset.checkpoint), float(dataset.reads))
        terms = {
            f"{w}·x{i}": weight * value
            for i, (w, weight, value) in enumerate(zip("abcd", self.weights, x, strict=True), 1)
        }
        value = sum(terms.values())
        origin = (
            "only declared idempotent" if declared else "idempotent" if repeatable
            else "not idempotent" if recorded else "missing" if operation else "not recorded"
        )  # fmt: skip
        reason = (
            f"its operation is {origin}, it is {'a' if dataset.checkpoint else 'no'} checkpoint, "
            f"read {dataset.reads} times: P = {' + '.join(f'{term:g}' for term in terms.values())} = {value:g}"
        )
        return Score(value, terms, reason)


@dataclass(frozen=True)
class ValueDensityPolicy:
    """Expected recovery time saved per second of transfer.

    P(the cache is lost within a day) × (what a loss now would cost − what it would cost with this generation
    persisted) / time to persist. Persisting saves re-running it, and re-running unpersisted ancestors that
    only it needs. Irrecoverable data has a high cost that grows with its bytes, and so has everything
    made from it; what only unproven operations can restore has a share of that cost. Looks at
    unpersisted ancestors, their dependents, and unpersisted descendants.
    """

    mean_fault_seconds: float
    name: str = "value-density"
    local: bool = False

    def score(self, ref: Ref, lineage: Lineage, costs: CostModel, now: float) -> Score:
        dataset = lineage.datasets[ref]
        transfer = plan_transfer(ref, lineage, costs, small_bytes=0).predicted
        seconds = max(transfer.seconds if transfer else dataset.bytes / _DEFAULT_LINK_RATE, _MIN_SEND_SECONDS)
        loss_probability = -expm1(-86400 / self.mean_fault_seconds)
        if lineage.is_recomputable(ref):
            runs = _runs_saved(ref, lineage)
            saved = sum(_run_seconds(r, lineage, costs) for r in runs)
            loss_text = (
                f"{format_seconds(saved)} of re-running {format_list(runs)}"
                if runs
                else "nothing: nothing depends on it"
            )
            if unproven := [
                r
                for r in (ref, *_proven_descendants(ref, lineage))
                if lineage.unproven_reasons(r) and _is_missed(r, lineage)
            ]:
                share = UNPROVEN_SHARE * _irrecoverable_seconds(unproven, lineage)
                saved += share
                loss_text += (
                    f", and possibly the permanent loss of {format_list(unproven)}, made by an unproven operation, "
                    f"which counts as {format_seconds(share)}"
                )
        else:
            lost = [r for r in (ref, *_rescued_descendants(ref, lineage)) if _is_missed(r, lineage)]
            saved = _irrecoverable_seconds(lost, lineage)
            size = format_bytes(sum(lineage.datasets[r].bytes for r in lost))
            loss_text = f"the permanent loss of {format_list(lost)}, {size}, which counts as {format_seconds(saved)}"
            loss_text = loss_text if lost else "nothing: nothing depends on it"
        terms = {"P(loss within a day)": loss_probability, "seconds saved": saved, "seconds to persist": seconds}
        reason = f"a loss of the cache would cost {loss_text}; persisting it takes {format_seconds(seconds)}"
        return Score(loss_probability * saved / seconds, terms, reason)


def _runs_saved(ref: Ref, lineage: Lineage) -> tuple[Ref, ...]:
    """Return what need not be re-run after a loss if `ref` is persisted: itself, and ancestors that only it needs."""
    if not _would_rerun(ref, lineage, frozenset()):
        return ()
    saved = {ref: None}
    for ancestor in reversed(lineage.unpersisted_ancestors(ref)):
        if not _would_rerun(ancestor, lineage, saved.keys()):
            saved[ancestor] = None
    return tuple(saved)


def _would_rerun(ref: Ref, lineage: Lineage, spared: Collection[Ref]) -> bool:
    """Whether a loss would cause a re-run of `ref`, for itself or for a needed descendant not in `spared`."""
    below, visited = [ref], {ref}
    while below:
        descendant = below.pop()
        if _is_needed(descendant, lineage):
            return True
        new = [
            d for d in lineage.dependents(descendant) if d not in visited and d not in spared and _can_run(d, lineage)
        ]
        below += new
        visited.update(new)
    return False


def _can_run(ref: Ref, lineage: Lineage) -> bool:
    return not lineage.datasets[ref].persisted and lineage.is_recomputable(ref)


def _rescued_descendants(ref: Ref, lineage: Lineage) -> tuple[Ref, ...]:
    """Return the descendants that are not recomputable now and would be if `ref` were persisted."""
    rescued: dict[Ref, None] = {}
    for descendant in lineage.unpersisted_descendants(ref):
        stuck = (s for s in lineage.datasets[descendant].sources if s != ref and s not in rescued)
        if not lineage.repeat_obstacle(descendant) and all(
            lineage.has_persisted_copy(s) or lineage.is_recomputable(s) for s in stuck
        ):
            rescued[descendant] = None
    return tuple(rescued)


def _proven_descendants(ref: Ref, lineage: Lineage) -> tuple[Ref, ...]:
    """Return the descendants that only unproven operations can restore now, and proven ones if `ref` were persisted."""
    proven: dict[Ref, None] = {}
    for descendant in lineage.unpersisted_descendants(ref):
        others = (s for s in lineage.datasets[descendant].sources if s != ref and s not in proven)
        if (
            lineage.unproven_reasons(descendant)
            and not lineage.unproven_reason(descendant)
            and not any(map(lineage.unproven_reasons, others))
        ):
            proven[descendant] = None
    return tuple(proven)


def _irrecoverable_seconds(refs: Collection[Ref], lineage: Lineage) -> float:
    """Return the cost of losing all of `refs` for good, in seconds."""
    return (
        len(refs) * IRRECOVERABLE_SECONDS
        + sum(lineage.datasets[r].bytes for r in refs) * IRRECOVERABLE_SECONDS_PER_BYTE
    )


def _is_needed(ref: Ref, lineage: Lineage) -> bool:
    """Whether it would be needed after a loss: for the under-store, or by an operation still to run."""
    return lineage.datasets[ref].persist_requested or bool(lineage.expected_readers(ref))


def _is_missed(ref: Ref, lineage: Lineage) -> bool:
    """Whether its bytes would be needed after a loss; an open generation has none yet."""
    return _is_needed(ref, lineage) and lineage.datasets[ref].phase is not Phase.OPEN


def _run_seconds(ref: Ref, lineage: Lineage, costs: CostModel) -> float:
    predicted = costs.predict_rerun(ref, lineage)
    if predicted:
        return predicted.seconds
    return (lineage.source_bytes(ref) + lineage.datasets[ref].bytes) / _DEFAULT_RUN_RATE
