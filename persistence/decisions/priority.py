"""Priority: which unpersisted generation goes to the under-store next; every score explains itself.

`paper` is the formula of the paper with a, b < 0 < c, d. `value-density` asks how much expected recovery a
second of the link saves. Installed packages add others, see `persistence/policies.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import expm1
from typing import Protocol

from springline.persistence.decisions.transfer import decide
from springline.persistence.model.cost_model import Costs
from springline.persistence.model.dataset import Idempotence, Phase, Ref
from springline.persistence.model.lineage import Lineage
from springline.persistence.text.formatting import say_bytes, say_list, say_seconds

GONE_SECONDS_PER_BYTE = 1e-3  # what a byte that nothing can bring back counts: 1 GB as much as 12 days of recomputing
GONE_SECONDS = 3600.0  # and every such generation, however small
UNPROVEN_SHARE = 0.1  # of that for what only a declaration would bring back: one in ten is taken to be wrong
_LINK_GUESS = 50e6  # bytes a second, until the link has been measured
_RUN_GUESS = 50e6  # bytes a second of an operation that was never measured
_LEAST_SEND = 1e-3  # seconds: nothing is sent in less


@dataclass(frozen=True)
class Score:
    """A priority, and how it came about.

    Args:
        value: the higher, the sooner.
        terms: the numbers that it came from, by name.
        words: the reason for a person, without the dataset's name.

    Example:
        >>> Score(-2_000.0, {"-bytes": -2_000.0}, "it has 2 kB").words
        'it has 2 kB'
    """

    value: float
    terms: Mapping[str, float]
    words: str


class Policy(Protocol):
    """An order of persisting: whatever has a `name`, says whether it is `local`, and gives scores.

    `local`: the score depends on the dataset alone, so that a stored one stays true.

    Example:
        >>> class Smallest:
        ...     name, local = "smallest", True
        ...
        ...     def score(self, ref, lineage, costs, now):
        ...         size = lineage.datasets[ref].bytes
        ...         return Score(-float(size), {"-bytes": -float(size)}, f"it has {say_bytes(size)}")
        >>> policy: Policy = Smallest()
        >>> ref = Ref("logs", 1)
        >>> policy.score(ref, Lineage({ref: Dataset(ref, bytes=5_000)}, {}), Costs(), now=0.0).words
        'it has 5 kB'
    """

    @property
    def name(self) -> str:
        """The name that it is chosen by."""

    @property
    def local(self) -> bool:
        """Whether the score depends on the dataset alone, so that a stored one stays true."""

    def score(self, ref: Ref, lineage: Lineage, costs: Costs, now: float) -> Score:
        """How urgent `ref` is at `now`, in seconds since 1970."""


def in_turn(refs: Iterable[Ref], lineage: Lineage, costs: Costs, policy: Policy, now: float) -> list[tuple[Ref, Score]]:
    """The order in which a policy has generations persisted.

    Args:
        refs: the generations that wait.
        lineage: what is known of them, and of what they came from.
        costs: what was measured.
        policy: gives the scores.
        now: seconds since 1970.

    Returns:
        Each with its score, the next one first: those that a person put at the head, then by score, then by name.

    Example:
        >>> class Smallest:
        ...     name, local = "smallest", True
        ...
        ...     def score(self, ref, lineage, costs, now):
        ...         return Score(-float(lineage.datasets[ref].bytes), {}, "small")
        >>> waiting = {Ref(path, 1): Dataset(Ref(path, 1), bytes=size) for path, size in (("a", 9), ("b", 2))}
        >>> [str(ref) for ref, _ in in_turn(waiting, Lineage(waiting, {}), Costs(), Smallest(), now=0.0)]
        ['b@1', 'a@1']
    """
    scored = [(ref, policy.score(ref, lineage, costs, now)) for ref in refs]
    return sorted(scored, key=lambda pair: (not lineage.datasets[pair[0]].head, -pair[1].value, pair[0]))


@dataclass(frozen=True)
class Paper:
    """P = a·x1 + b·x2 + c·x3 + d·x4: operation recorded, repeatable, checkpoint, times read.

    An operation that is declared idempotent and was never seen to repeat counts half as repeatable.
    """

    weights: tuple[float, float, float, float]
    name: str = "paper"
    local: bool = True

    def score(self, ref: Ref, lineage: Lineage, costs: Costs, now: float) -> Score:
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
            else "not idempotent" if recorded else "gone" if operation else "not recorded"
        )  # fmt: skip
        words = (
            f"its operation is {origin}, it is {'a' if dataset.checkpoint else 'no'} checkpoint, "
            f"read {dataset.reads} times: P = {' + '.join(f'{term:g}' for term in terms.values())} = {value:g}"
        )
        return Score(value, terms, words)


@dataclass(frozen=True)
class ValueDensity:
    """Expected recovery that a second of persisting saves.

    P(the cache is lost within a day) × (what a loss now would cost − what it would cost with this one
    persisted) / time to persist. Persisting saves running it again, and running unpersisted ancestors that
    only it needs; what cannot be made again costs a great deal, growing with its bytes, and so does all that
    was made from it; what only operations bring back that were never seen to repeat, a share of that. Looks at
    unpersisted ancestors, their dependents, and unpersisted descendants.
    """

    mean_fault_seconds: float
    name: str = "value-density"
    local: bool = False

    def score(self, ref: Ref, lineage: Lineage, costs: Costs, now: float) -> Score:
        dataset = lineage.datasets[ref]
        turn = decide(ref, lineage, costs, small_bytes=0).predicted
        seconds = max(turn.seconds if turn else dataset.bytes / _LINK_GUESS, _LEAST_SEND)
        chance = -expm1(-86400 / self.mean_fault_seconds)
        if lineage.recomputable(ref):
            runs = _runs_saved(ref, lineage)
            saved = sum(_run_seconds(r, lineage, costs) for r in runs)
            what = f"{say_seconds(saved)} of running {say_list(runs)} again" if runs else "nothing: nobody needs it"
            if doubted := [r for r in (ref, *_cleared(ref, lineage)) if lineage.doubts(r) and _missed(r, lineage)]:
                share = UNPROVEN_SHARE * _gone_seconds(doubted, lineage)
                saved += share
                what += (
                    f", and perhaps {say_list(doubted)} for good, by an operation that was never seen to repeat, "
                    f"which counts as {say_seconds(share)}"
                )
        else:
            lost = [r for r in (ref, *_rescued(ref, lineage)) if _missed(r, lineage)]
            saved = _gone_seconds(lost, lineage)
            size = say_bytes(sum(lineage.datasets[r].bytes for r in lost))
            what = f"{say_list(lost)} for good, {size}, which counts as {say_seconds(saved)}"
            what = what if lost else "nothing: nobody needs it"
        terms = {"P(loss within a day)": chance, "seconds saved": saved, "seconds to persist": seconds}
        words = f"a loss of the cache would cost {what}; persisting it takes {say_seconds(seconds)}"
        return Score(chance * saved / seconds, terms, words)


def _runs_saved(ref: Ref, lineage: Lineage) -> tuple[Ref, ...]:
    """What need not be run again after a loss if `ref` is persisted: itself, and what only it needs upstream."""
    if not _run_again(ref, lineage, frozenset()):
        return ()
    saved = {ref: None}
    for ancestor in reversed(lineage.unpersisted_above(ref)):
        if not _run_again(ancestor, lineage, saved.keys()):
            saved[ancestor] = None
    return tuple(saved)


def _run_again(ref: Ref, lineage: Lineage, spared: Collection[Ref]) -> bool:
    """Would a loss make somebody run `ref` again: for itself, or on the way to what is needed, bar what is spared?"""
    below, seen = [ref], {ref}
    while below:
        found = below.pop()
        if _needed(found, lineage):
            return True
        new = [d for d in lineage.dependents(found) if d not in seen and d not in spared and _can_run(d, lineage)]
        below += new
        seen.update(new)
    return False


def _can_run(ref: Ref, lineage: Lineage) -> bool:
    return not lineage.datasets[ref].persisted and lineage.recomputable(ref)


def _rescued(ref: Ref, lineage: Lineage) -> tuple[Ref, ...]:
    """What cannot be made again now and could be if `ref` were persisted."""
    rescued: dict[Ref, None] = {}
    for below in lineage.unpersisted_below(ref):
        stuck = (s for s in lineage.datasets[below].sources if s != ref and s not in rescued)
        if not lineage.why_not_repeatable(below) and all(lineage.kept(s) or lineage.recomputable(s) for s in stuck):
            rescued[below] = None
    return tuple(rescued)


def _cleared(ref: Ref, lineage: Lineage) -> tuple[Ref, ...]:
    """What only unproven operations bring back now, and proven ones would if `ref` were persisted."""
    cleared: dict[Ref, None] = {}
    for below in lineage.unpersisted_below(ref):
        others = (s for s in lineage.datasets[below].sources if s != ref and s not in cleared)
        if lineage.doubts(below) and not lineage.why_not_proven(below) and not any(map(lineage.doubts, others)):
            cleared[below] = None
    return tuple(cleared)


def _gone_seconds(refs: Collection[Ref], lineage: Lineage) -> float:
    """What losing all of `refs` for good counts."""
    return len(refs) * GONE_SECONDS + sum(lineage.datasets[r].bytes for r in refs) * GONE_SECONDS_PER_BYTE


def _needed(ref: Ref, lineage: Lineage) -> bool:
    """Would somebody ask for it after a loss: the under-store, or an operation still to run?"""
    return lineage.datasets[ref].wanted or bool(lineage.to_run(ref))


def _missed(ref: Ref, lineage: Lineage) -> bool:
    """Are there bytes of it that somebody would ask for after a loss? What is being written has none yet."""
    return _needed(ref, lineage) and lineage.datasets[ref].phase is not Phase.OPEN


def _run_seconds(ref: Ref, lineage: Lineage, costs: Costs) -> float:
    predicted = costs.rerun(ref, lineage)
    if predicted:
        return predicted.seconds
    return (lineage.source_bytes(ref) + lineage.datasets[ref].bytes) / _RUN_GUESS
