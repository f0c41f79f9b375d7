"""Says of one generation where it is, why there in the queue, how it goes below, and what would bring it back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from springline.persistence.decisions.priority import Score, in_turn
from springline.persistence.decisions.recovery import RecoveryPlan, plan_recovery
from springline.persistence.decisions.transfer import TransferPlan, decide
from springline.persistence.errors import NeverWrittenError
from springline.persistence.model.dataset import (
    Cache,
    Dataset,
    Idempotence,
    Moment,
    Operation,
    Phase,
    Ref,
    Status,
    checked_path,
)
from springline.persistence.model.lineage import Lineage
from springline.persistence.platform import Platform
from springline.persistence.text.formatting import say_bytes, say_list, say_seconds

_FIRST = 200  # of the queue, by stored score


@dataclass(frozen=True)
class Explanation:
    """All that is known of one generation, and the decisions on it."""

    dataset: Dataset
    status: Status
    why_not_recomputable: tuple[str, ...]
    idempotence: Idempotence | None  # of the operation that made it; None: none is recorded
    proof: str  # whether that operation is to be proven, in words; empty where it need not be
    score: Score | None  # None: it does not wait in the queue
    ahead: int
    plan: TransferPlan | None
    recovery: RecoveryPlan  # if the cache were lost now
    moments: tuple[Moment, ...]
    away: str = ""  # why the under-store's copies count for nothing

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
            "under_store_away": self.away,
            "bytes": dataset.bytes,
            "rows": dataset.rows,
            "digest": dataset.digest,
            "operation": dataset.call.name if dataset.call else None,
            "sources": [str(source) for source in dataset.sources],
            "recomputable": not self.why_not_recomputable,
            "why_not_recomputable": list(self.why_not_recomputable),
            "idempotence": self.idempotence.value if self.idempotence else None,
            "proof": self.proof,
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
                "unproven": {str(ref): list(why) for ref, why in self.recovery.unproven.items()},
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
        if self._believed:
            return f"{self.status.value}: {cache}; a copy was put into the under-store, and {self.away}."
        return f"{self.status.value}: {cache}, {under}."

    @property
    def _believed(self) -> bool:
        """Only the catalog says that there is a copy in the under-store."""
        return self.dataset.persisted and bool(self.away)

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
        if self.dataset.persisted and not self.away:
            return "Nothing would be lost: it would be read from the under-store."
        unless = "Unless its copy is there when the under-store is back: " if self._believed else ""
        it = "it" if unless else "It"
        if why := self.recovery.irrecoverable.get(self.dataset.ref):
            return f"{unless}{it} would be gone for good: {'; '.join(why)}."
        steps = "; then ".join(step.words for step in self.recovery.steps)
        takes = f"in about {say_seconds(self.recovery.seconds)}: {steps}"
        if why := self.recovery.unproven.get(self.dataset.ref):
            tried = f"{unless}{it} might be gone for good: {'; '.join(why)}. Bringing it back would be tried, {takes}."
            return f"{tried} {self.proof}".strip()
        return f"{unless}{it} could be brought back {takes}."


def explain(platform: Platform, path: str, generation: int | None = None) -> Explanation:
    """Explain the newest generation of `path`, or that asked for; raises `UnknownDatasetError`, `InvalidPathError`."""
    dataset = find(platform, path, generation)
    catalog, away = platform.catalog, platform.watch.why_away()
    around = catalog.lineage_around([dataset.ref])
    bare = catalog.lineage_around([dataset.ref], down=False, away=True) if away else around
    return explanation_of(platform, dataset, around, bare=bare, away=away)


def find(platform: Platform, path: str, generation: int | None = None) -> Dataset:
    """The newest generation of `path`, committed or not, or that asked for.

    Raises `UnknownDatasetError`, `InvalidPathError`.
    """
    catalog = platform.catalog
    checked_path(path)
    if generation is not None:
        return catalog.get(Ref(path, generation))
    newest = catalog.find(path=path, limit=1)
    if not newest:
        raise NeverWrittenError(path)
    return newest[0]


def explanation_of(platform: Platform, dataset: Dataset, lineage: Lineage, *, bare: Lineage, away: str) -> Explanation:
    """Explain a generation by the lineage around it, in the names that this has.

    `away`: why the under-store does not answer; `bare` is the lineage without the copies in it then.
    """
    catalog = platform.catalog
    costs = catalog.costs(lineage)
    waits = dataset.wanted and dataset.under.value == "none" and dataset.phase is Phase.COMMITTED
    score = platform.persister.policy.score(dataset.ref, lineage, costs, catalog.now()) if waits else None
    operation = lineage.operation_of(dataset.ref)
    return Explanation(
        dataset=dataset,
        status=dataset.status(recomputable=bare.recomputable(dataset.ref)),
        why_not_recomputable=bare.why_not_recomputable(dataset.ref),
        idempotence=operation.idempotence if operation else None,
        proof=_proof(platform, operation) if operation else "",
        score=score,
        ahead=_ahead(platform, dataset, score) if score else 0,
        plan=decide(dataset.ref, lineage, costs, small_bytes=platform.settings.small_bytes) if waits else None,
        recovery=plan_recovery(bare.without_cache(), [dataset.ref], costs),
        moments=tuple(catalog.history(dataset.ref)),
        away=away,
    )


def _proof(platform: Platform, operation: Operation) -> str:
    """Whether an operation is going to be proven; names no dataset: it may be others' that are made again for it."""
    if operation.idempotence is not Idempotence.DECLARED:
        return ""
    by_hand = f"`springline operation prove {operation.name}` does it now."
    if not platform.prover.enabled:
        return f"Operations are not proven of themselves (SPRINGLINE_PROVE); {by_hand}"
    if any((plan.operation, plan.version) == (operation.name, operation.version) for plan in platform.prover.plan()):
        return f"An idle persister runs {operation.name} a second time to prove it; {by_hand}"
    return f"What {operation.name} makes is too small and cheap for it to be proven of itself; {by_hand}"


def _ahead(platform: Platform, dataset: Dataset, score: Score) -> int:
    """How many come before it; among the first of the queue by the scores of now, which it is shown by, too."""
    refs = platform.claims.waiting(_FIRST)
    if dataset.ref not in refs:
        return platform.claims.ahead_of(dataset, score.value)
    catalog = platform.catalog
    lineage = catalog.lineage_around(refs)
    order = in_turn(refs, lineage, catalog.costs(lineage), platform.persister.policy, catalog.now())
    return [ref for ref, _ in order].index(dataset.ref)
