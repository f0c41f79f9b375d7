"""Says of one generation where it is, why there in the queue, how it goes below, and what would bring it back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from persistence.history import Costs
from persistence.lineage import Lineage
from persistence.model import Cache, Dataset, Moment, Phase, Ref, Status, checked_path
from persistence.platform import Platform
from persistence.priority import Score, in_turn
from persistence.recovery import RecoveryPlan, plan_recovery
from persistence.transfer import TransferPlan, decide
from persistence.wording import say_bytes, say_list, say_seconds

_FIRST = 200  # of the queue, by stored score


@dataclass(frozen=True)
class Explanation:
    """All that is known of one generation, and the decisions on it."""

    dataset: Dataset
    status: Status
    why_not_recomputable: tuple[str, ...]
    score: Score | None  # None: it does not wait in the queue
    ahead: int
    plan: TransferPlan | None
    recovery: RecoveryPlan  # if the cache were lost now
    moments: tuple[Moment, ...]

    def paragraphs(self) -> list[tuple[str, str]]:
        """The explanation as titled paragraphs of plain words."""
        return [
            ("What it is", self._what()),
            ("Where it is", self._where()),
            ("In the queue", self._queue()),
            ("How it goes to the under-store", self._transfer()),
            ("If the cache were lost now", self._loss()),
        ]

    def as_dict(self) -> dict[str, Any]:
        """The explanation for machines."""
        dataset = self.dataset
        return {
            "dataset": str(dataset.ref),
            "status": self.status.value,
            "cache": dataset.cache.value,
            "under_store": dataset.under.value,
            "bytes": dataset.bytes,
            "rows": dataset.rows,
            "digest": dataset.digest,
            "operation": dataset.call.name if dataset.call else None,
            "sources": [str(source) for source in dataset.sources],
            "recomputable": not self.why_not_recomputable,
            "why_not_recomputable": list(self.why_not_recomputable),
            "score": {"value": self.score.value, "terms": dict(self.score.terms), "words": self.score.words}
            if self.score
            else None,
            "ahead": self.ahead if self.score else None,
            "transfer": {"method": self.plan.method.value, "words": self.plan.words} if self.plan else None,
            "predicted_seconds": dataset.predicted_seconds,
            "actual_seconds": dataset.actual_seconds,
            "recovery": {
                "steps": [step.words for step in self.recovery.steps],
                "seconds": self.recovery.seconds,
                "irrecoverable": {str(ref): list(why) for ref, why in self.recovery.irrecoverable.items()},
            },
            "history": [
                {"at": m.at, "event": m.event, "who": m.who, "why": m.why, "cache": m.cache, "under_store": m.under}
                for m in self.moments
            ],
        }

    def _what(self) -> str:
        dataset = self.dataset
        rows = "" if dataset.rows is None else f", {dataset.rows:,} rows"
        made = f"made by {dataset.call.name}" if dataset.call else "made by no recorded operation"
        inputs = f" from {say_list(dataset.sources)}" if dataset.sources else ""
        run = f", in the DAG run {dataset.origin.run_id}" if dataset.origin.run_id else ""
        newer = "; a newer generation has superseded it" if dataset.superseded else ""
        return f"{dataset.ref}: {say_bytes(dataset.bytes)}{rows}, {made}{inputs}{run}, under {dataset.strategy}{newer}."

    def _where(self) -> str:
        dataset = self.dataset
        cache = {
            Cache.WRITING: "being written",
            Cache.PRESENT: "in the cache",
            Cache.EVICTED: "not in the cache",
            Cache.LOST: "lost from the cache",
        }[dataset.cache]
        under = {"none": "not in the under-store", "copying": "on its way to the under-store"}.get(
            dataset.under.value, "a verified copy is in the under-store"
        )
        return f"{self.status.value}: {cache}, {under}."

    def _queue(self) -> str:
        dataset = self.dataset
        if dataset.persisted:
            return "It is persisted and waits for nothing."
        if self.score is None:
            if dataset.phase is not Phase.COMMITTED:
                return "It is not committed yet; it is queued when it is."
            if dataset.under.value == "copying":
                return "A worker is sending it now."
            return f"It is not wanted in the under-store. {dataset.error}".strip()
        if self.status is Status.IRRECOVERABLE:
            return "It is given up when its turn comes: nothing can bring it back."
        place = "It is next"
        if self.ahead:
            more = "+" if self.ahead >= 1000 else ""
            place = f"{self.ahead}{more} {'comes' if self.ahead == 1 else 'come'} before it"
        head = "; it was put at the head of the queue" if dataset.head else ""
        failed = f" The last try failed: {dataset.error}." if dataset.error else ""
        return f"{place}{head}: {self.score.words}.{failed}"

    def _transfer(self) -> str:
        dataset = self.dataset
        if dataset.persisted:
            how = f"It went as {dataset.method}" if dataset.method else "It was there before"
            took = f" in {say_seconds(dataset.actual_seconds)}" if dataset.actual_seconds is not None else ""
            said = f" ({say_seconds(dataset.predicted_seconds)} predicted)" if dataset.predicted_seconds else ""
            return f"{how}{took}{said}."
        return f"{self.plan.words}." if self.plan else "It does not go there."

    def _loss(self) -> str:
        if self.dataset.persisted:
            return "Nothing would be lost: it would be read from the under-store."
        if why := self.recovery.irrecoverable.get(self.dataset.ref):
            return f"It would be gone for good: {'; '.join(why)}."
        steps = "; then ".join(step.words for step in self.recovery.steps)
        return f"It could be brought back in about {say_seconds(self.recovery.seconds)}: {steps}."


def explain(platform: Platform, path: str, generation: int | None = None) -> Explanation:
    """Explain the newest generation of `path`, or that asked for; raises `UnknownDataset`, `InvalidPath`."""
    dataset = find(platform, path, generation)
    return explanation_of(platform, dataset, platform.catalog.lineage_around([dataset.ref]))


def find(platform: Platform, path: str, generation: int | None = None) -> Dataset:
    """The newest generation of `path`, committed or not, or that asked for; raises `UnknownDataset`, `InvalidPath`."""
    catalog = platform.catalog
    checked_path(path)
    if generation is not None:
        return catalog.get(Ref(path, generation))
    newest = catalog.find(path=path, limit=1)
    return newest[0] if newest else catalog.resolve(path)


def explanation_of(platform: Platform, dataset: Dataset, lineage: Lineage) -> Explanation:
    """Explain a generation by the lineage around it, in the names that this has."""
    catalog = platform.catalog
    costs = catalog.costs(lineage)
    waits = dataset.wanted and dataset.under.value == "none" and dataset.phase is Phase.COMMITTED
    score = platform.persister.policy.score(dataset.ref, lineage, costs, catalog.now()) if waits else None
    return Explanation(
        dataset=dataset,
        status=dataset.status(recomputable=lineage.recomputable(dataset.ref)),
        why_not_recomputable=lineage.why_not_recomputable(dataset.ref),
        score=score,
        ahead=_ahead(platform, dataset, score) if score else 0,
        plan=decide(dataset.ref, lineage, costs, small_bytes=platform.settings.small_bytes) if waits else None,
        recovery=_without_cache(dataset, lineage, costs),
        moments=tuple(catalog.history(dataset.ref)),
    )


def _ahead(platform: Platform, dataset: Dataset, score: Score) -> int:
    """How many come before it; among the first of the queue by the scores of now, which it is shown by, too."""
    refs = platform.claims.waiting(_FIRST)
    if dataset.ref not in refs:
        return platform.claims.ahead_of(dataset, score.value)
    catalog = platform.catalog
    lineage = catalog.lineage_around(refs)
    order = in_turn(refs, lineage, catalog.costs(lineage), platform.persister.policy, catalog.now())
    return [ref for ref, _ in order].index(dataset.ref)


def _without_cache(dataset: Dataset, lineage: Lineage, costs: Costs) -> RecoveryPlan:
    cached = [d for d in lineage.datasets.values() if d.in_cache]
    return plan_recovery(lineage.changed(*(replace(d, cache=Cache.LOST) for d in cached)), [dataset.ref], costs)
