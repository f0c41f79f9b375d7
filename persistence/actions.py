"""What a person asks for by hand, of one generation: decided, carried out, and noted with the person's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from springline.persistence.decisions.recovery import plan_recovery
from springline.persistence.engine.replacement import evicted_by_hand
from springline.persistence.errors import TransitionError
from springline.persistence.model.cost_model import Costs
from springline.persistence.model.dataset import Cache, Dataset, Phase, Ref, Under
from springline.persistence.model.lineage import Lineage
from springline.persistence.platform import Platform
from springline.persistence.text.formatting import say_bytes, say_seconds


class Wish(StrEnum):
    """What can be asked for."""

    PERSIST = "persist"  # before all else
    PIN = "pin"
    UNPIN = "unpin"
    EVICT = "evict"
    MARK = "mark"  # as a checkpoint
    UNMARK = "unmark"


@dataclass(frozen=True)
class Decision:
    """What a wish comes to: the columns that change and the event that is noted, or why it is refused."""

    wish: Wish
    ref: Ref
    bytes: int
    words: str
    allowed: bool
    event: str = ""
    columns: Mapping[str, Any] = field(default_factory=dict)


def decide(
    dataset: Dataset, wish: Wish, *, held: bool = False, why_gone: tuple[str, ...] = (), why_stays: str = ""
) -> Decision:
    """Whether `wish` may be done with a generation, and what it is then.

    `held`: somebody reads it now. `why_gone`: what stands in the way of making it again, if it is lost. `why_stays`:
    why its copy in the under-store may not be relied on.
    """
    refusal = _against(dataset, wish, held, why_gone, why_stays)
    words, event, columns = _effect(dataset, wish)
    if refusal:
        return Decision(wish, dataset.ref, dataset.bytes, f"{dataset.ref} {refusal}", allowed=False)
    return Decision(wish, dataset.ref, dataset.bytes, f"{dataset.ref} {words}", True, event, columns)


@dataclass(frozen=True)
class Return:
    """What the wish to have a generation back comes to: what would be done, or why it cannot be."""

    ref: Ref
    words: str
    allowed: bool


def decide_return(ref: Ref, lineage: Lineage, costs: Costs) -> Return:
    """Whether a generation may be brought back to the cache, and by what: fetching it, or running operations again.

    One that is in the cache may be too, since its bytes may be gone without anybody having noticed.
    """
    dataset = lineage.datasets[ref]
    if dataset.phase is not Phase.COMMITTED:
        return Return(ref, f"{ref} is {dataset.phase.value}, not committed", allowed=False)
    plan = plan_recovery(lineage.changed(replace(dataset, cache=Cache.LOST)), [ref], costs)
    if why := "; ".join(plan.irrecoverable.get(ref, ())):
        stays = "is in the cache, and could not be brought back" if dataset.in_cache else "cannot be brought back"
        return Return(ref, f"{ref} {stays}: {why}", allowed=False)
    known = all(step.predicted for step in plan.steps)
    back = f"comes back{f' in about {say_seconds(plan.seconds)}' if known else ''}"
    how = f"{back}: {'; then '.join(step.words for step in plan.steps)}"
    if dataset.in_cache:
        how = f"is in the cache; its bytes are looked at there, and if they are not whole, it {how}"
    return Return(ref, f"{ref} {how}", allowed=True)


def carry_out(platform: Platform, decision: Decision, who: str) -> None:
    """Do what was decided, in the name of `who`; raises `TransitionError` if it may not be, or no longer."""
    if not decision.allowed:
        raise TransitionError(decision.words)
    if decision.wish is Wish.EVICT:
        if why := platform.replacement.let_go(evicted_by_hand(decision.ref, decision.bytes), who=who):
            raise TransitionError(why)
        return
    catalog = platform.catalog.acting_as(who)
    catalog.amend(decision.ref, event=decision.event, why="asked for by hand", **decision.columns)
    if decision.wish in (Wish.MARK, Wish.UNMARK):
        _rescore(platform, decision.ref)


def _against(dataset: Dataset, wish: Wish, held: bool, why_gone: tuple[str, ...], why_stays: str) -> str:
    """What speaks against a wish; empty if nothing does."""
    if dataset.phase is not Phase.COMMITTED:
        return f"is {dataset.phase.value}, not committed"
    already = {
        Wish.PERSIST: dataset.persisted and "is persisted already",
        Wish.PIN: dataset.pinned and "is pinned already",
        Wish.UNPIN: not dataset.pinned and "is not pinned",
        Wish.EVICT: not dataset.in_cache and "is not in the cache",
        Wish.MARK: dataset.checkpoint and "is a checkpoint already",
        Wish.UNMARK: not dataset.checkpoint and "is no checkpoint",
    }[wish]
    if already:
        return str(already)
    if wish is Wish.PERSIST:
        if dataset.under is Under.COPYING:
            return "is being sent already"
        if not dataset.available and why_gone:
            return f"cannot be brought back: {'; '.join(why_gone)}"
    if wish is Wish.EVICT:
        if not dataset.persisted:
            return "is not persisted; only persisted ones go by hand"
        if dataset.pinned:
            return "is pinned"
        if held:
            return "is being read"
        if why_stays:
            return f"stays in the cache: {why_stays}"
    return ""


def _effect(dataset: Dataset, wish: Wish) -> tuple[str, str, dict[str, Any]]:
    """A wish in words, the event that is noted, and the columns that it changes."""
    if wish is Wish.PERSIST:
        return "goes to the head of the queue", "hurried", {"head": True, "wanted": True, "not_before": 0.0}
    if wish is Wish.EVICT:
        return f"leaves the cache, and {say_bytes(dataset.bytes)} with it; a copy is in the under-store", "", {}
    words = {
        Wish.PIN: "is kept in the cache, and from being retired",
        Wish.UNPIN: "may leave the cache again",
        Wish.MARK: "counts as a checkpoint",
        Wish.UNMARK: "counts as a checkpoint no more",
    }[wish]
    column = "pinned" if wish in (Wish.PIN, Wish.UNPIN) else "checkpoint"
    return words, f"{wish}ned" if column == "pinned" else f"{wish}ed", {column: wish in (Wish.PIN, Wish.MARK)}


def _rescore(platform: Platform, ref: Ref) -> None:
    """Store the score that a generation has now, if it waits."""
    catalog = platform.catalog
    lineage = catalog.lineage_around([ref])
    dataset = lineage.datasets[ref]
    if dataset.wanted and dataset.under is Under.NONE:
        score = platform.persister.policy.score(ref, lineage, catalog.costs(lineage), catalog.now())
        platform.claims.rescore(ref, score.value)
