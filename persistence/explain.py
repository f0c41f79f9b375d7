"""Explains one generation: where it is, its position in the queue, its transfer, and how it could be restored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from springline.persistence.decisions.priority import Score, order_by_priority
from springline.persistence.decisions.recovery import RecoveryPlan, plan_recovery
from springline.persistence.decisions.transfer import TransferPlan, plan_transfer
from springline.persistence.errors import NeverWrittenError
from springline.persistence.model.dataset import (
    CacheState,
    Dataset,
    DatasetStatus,
    Idempotence,
    Operation,
    Phase,
    Ref,
    StateChange,
    validate_path,
)
from springline.persistence.model.lineage import Lineage
from springline.persistence.model.table_uri import tables_read
from springline.persistence.platform import Platform
from springline.persistence.text.formatting import format_bytes, format_list, format_seconds

_QUEUE_HEAD = 200  # generations at the front of the queue, by stored score


@dataclass(frozen=True)
class Explanation:
    """All that is known of one generation, and the decisions on it."""

    dataset: Dataset
    status: DatasetStatus
    recompute_obstacles: tuple[str, ...]
    idempotence: Idempotence | None  # of the operation that made it; None if none is recorded
    proof: str  # whether that operation is to be proven, as a sentence; empty if it need not be
    score: Score | None  # None if it is not queued
    queue_position: int
    plan: TransferPlan | None
    recovery: RecoveryPlan  # if the cache were lost now
    moments: tuple[StateChange, ...]
    unavailable_reason: str = ""  # why copies in the under-store do not count

    def paragraphs(self) -> list[tuple[str, str]]:
        """Return the explanation as titled paragraphs of plain text."""
        return [
            ("Dataset", self._describe_dataset()),
            ("Location", self._describe_location()),
            ("Queue", self._describe_queue()),
            ("Transfer to the under-store", self._describe_transfer()),
            ("If the cache were lost now", self._describe_loss()),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the explanation as JSON values."""
        dataset = self.dataset
        return {
            "dataset": str(dataset.ref),
            "status": self.status.value,
            "cache": dataset.cache.value,
            "under_store": dataset.under.value,
            "under_store_away": self.unavailable_reason,
            "bytes": dataset.bytes,
            "rows": dataset.rows,
            "digest": dataset.digest,
            "operation": dataset.call.name if dataset.call else None,
            "sources": [str(source) for source in dataset.sources],
            "tables": list(tables_read(dataset)),
            "recomputable": not self.recompute_obstacles,
            "recompute_obstacles": list(self.recompute_obstacles),
            "idempotence": self.idempotence.value if self.idempotence else None,
            "proof": self.proof,
            "score": {"value": self.score.value, "terms": dict(self.score.terms), "reason": self.score.reason}
            if self.score
            else None,
            "queue_position": self.queue_position if self.score else None,
            "transfer": {"method": self.plan.method.value, "reason": self.plan.reason} if self.plan else None,
            "predicted_seconds": dataset.predicted_seconds,
            "actual_seconds": dataset.actual_seconds,
            "recovery": {
                "steps": [step.summary for step in self.recovery.steps],
                "seconds": self.recovery.seconds,
                "unproven": {str(ref): list(reasons) for ref, reasons in self.recovery.unproven.items()},
                "irrecoverable": {str(ref): list(reasons) for ref, reasons in self.recovery.irrecoverable.items()},
            },
            "history": [
                {
                    "timestamp": m.timestamp,
                    "event": m.event,
                    "actor": m.actor,
                    "reason": m.reason,
                    "cache": m.cache,
                    "under_store": m.under,
                }
                for m in self.moments
            ],
        }

    def _describe_dataset(self) -> str:
        dataset = self.dataset
        rows = "" if dataset.rows is None else f", {dataset.rows:,} rows"
        producer = f"made by {dataset.call.name}" if dataset.call else "no operation is recorded for it"
        made_from = [*map(str, dataset.sources), *tables_read(dataset)]
        inputs = f" from {format_list(made_from)}" if made_from else ""
        run = f", in the DAG run {dataset.origin.run_id}" if dataset.origin.run_id else ""
        newer = "; a newer generation has superseded it" if dataset.superseded else ""
        return (
            f"{dataset.ref}: {format_bytes(dataset.bytes)}{rows}, {producer}{inputs}{run}, "
            f"under {dataset.strategy}{newer}."
        )

    def _describe_location(self) -> str:
        dataset = self.dataset
        cache = {
            CacheState.WRITING: "being written",
            CacheState.PRESENT: "in the cache",
            CacheState.EVICTED: "not in the cache",
            CacheState.LOST: "lost from the cache",
        }[dataset.cache]
        under = {"none": "not in the under-store", "copying": "being copied to the under-store"}.get(
            dataset.under.value, "a verified copy is in the under-store"
        )
        if self._is_copy_unconfirmed:
            return (
                f"{self.status.value}: {cache}; according to the catalog a copy is in "
                f"the under-store, but {self.unavailable_reason}."
            )
        return f"{self.status.value}: {cache}, {under}."

    @property
    def _is_copy_unconfirmed(self) -> bool:
        """Whether only the catalog says that there is a copy in the under-store."""
        return self.dataset.persisted and bool(self.unavailable_reason)

    def _describe_queue(self) -> str:
        dataset = self.dataset
        if dataset.persisted:
            return "It is persisted and not queued."
        if self.score is None:
            if dataset.phase is not Phase.COMMITTED:
                return "It is not committed yet; it will be queued at the commit."
            if dataset.under.value == "copying":
                return "A persister is transferring it now."
            return f"It is not to be persisted. {dataset.error}".strip()
        if self.status is DatasetStatus.IRRECOVERABLE:
            return "It is irrecoverable, and will be removed from the queue."
        position = "It is the next one"
        if self.queue_position:
            more = "+" if self.queue_position >= 1000 else ""
            position = f"{self.queue_position}{more} {'is' if self.queue_position == 1 else 'are'} before it"
        head = "; it was moved to the head of the queue" if dataset.expedited else ""
        last_error = f" The last attempt failed: {dataset.error}." if dataset.error else ""
        return f"{position}{head}: {self.score.reason}.{last_error}"

    def _describe_transfer(self) -> str:
        dataset = self.dataset
        if dataset.persisted:
            method = f"It was persisted as {dataset.method}" if dataset.method else "It was already in the under-store"
            duration = f" in {format_seconds(dataset.actual_seconds)}" if dataset.actual_seconds is not None else ""
            prediction = (
                f" ({format_seconds(dataset.predicted_seconds)} predicted)" if dataset.predicted_seconds else ""
            )
            return f"{method}{duration}{prediction}."
        return f"{self.plan.reason}." if self.plan else "None."

    def _describe_loss(self) -> str:
        if self.dataset.persisted and not self.unavailable_reason:
            return "Nothing would be lost: it would be read from the under-store."
        condition = (
            "Unless its copy exists when the under-store is available again: " if self._is_copy_unconfirmed else ""
        )
        it = "it" if condition else "It"
        if reasons := self.recovery.irrecoverable.get(self.dataset.ref):
            return f"{condition}{it} would be irrecoverable: {'; '.join(reasons)}."
        steps = "; then ".join(step.summary for step in self.recovery.steps)
        duration_and_steps = f"in about {format_seconds(self.recovery.seconds)}: {steps}"
        if reasons := self.recovery.unproven.get(self.dataset.ref):
            message = (
                f"{condition}{it} might be irrecoverable: {'; '.join(reasons)}. Springline "
                f"would try to restore it {duration_and_steps}."
            )
            return f"{message} {self.proof}".strip()
        return f"{condition}{it} could be restored {duration_and_steps}."


def explain(platform: Platform, path: str, generation: int | None = None) -> Explanation:
    """Explain the newest generation of `path`, or number `generation`.

    Raises `UnknownDatasetError`, `InvalidPathError`.
    """
    dataset = find_dataset(platform, path, generation)
    catalog, unavailable_reason = platform.catalog, platform.watch.unavailable_reason()
    lineage = catalog.lineage_around([dataset.ref])
    reachable_lineage = (
        catalog.lineage_around([dataset.ref], down=False, ignore_under_store=True) if unavailable_reason else lineage
    )
    return build_explanation(
        platform, dataset, lineage, reachable_lineage=reachable_lineage, unavailable_reason=unavailable_reason
    )


def find_dataset(platform: Platform, path: str, generation: int | None = None) -> Dataset:
    """Return the newest generation of `path`, committed or not, or number `generation`.

    Raises `UnknownDatasetError`, `InvalidPathError`.
    """
    catalog = platform.catalog
    validate_path(path)
    if generation is not None:
        return catalog.get(Ref(path, generation))
    newest = catalog.find(path=path, limit=1)
    if not newest:
        raise NeverWrittenError(path)
    return newest[0]


def build_explanation(
    platform: Platform, dataset: Dataset, lineage: Lineage, *, reachable_lineage: Lineage, unavailable_reason: str
) -> Explanation:
    """Explain a generation by the lineage around it, with the names used there.

    `unavailable_reason`: why the under-store does not respond; `reachable_lineage` is then the lineage without the
    copies in it.
    """
    catalog = platform.catalog
    costs = catalog.load_cost_model(lineage)
    is_queued = dataset.persist_requested and dataset.under.value == "none" and dataset.phase is Phase.COMMITTED
    score = platform.persister.policy.score(dataset.ref, lineage, costs, catalog.now()) if is_queued else None
    operation = lineage.operation_of(dataset.ref)
    return Explanation(
        dataset=dataset,
        status=dataset.status(recomputable=reachable_lineage.is_restorable(dataset.ref)),
        recompute_obstacles=reachable_lineage.recompute_obstacles(dataset.ref),
        idempotence=operation.idempotence if operation else None,
        proof=_describe_proof(platform, operation) if operation else "",
        score=score,
        queue_position=_queue_position(platform, dataset, score) if score else 0,
        plan=plan_transfer(dataset.ref, lineage, costs, small_bytes=platform.settings.min_operation_bytes)
        if is_queued
        else None,
        recovery=plan_recovery(reachable_lineage.without_cache(), [dataset.ref], costs),
        moments=tuple(catalog.history(dataset.ref)),
        unavailable_reason=unavailable_reason,
    )


def _describe_proof(platform: Platform, operation: Operation) -> str:
    """Describe whether an operation will be proven; names no dataset, since it may make datasets of other users."""
    if operation.idempotence is not Idempotence.DECLARED:
        return ""
    manual_hint = f"run `springline operation prove {operation.name}` to prove it now."
    if not platform.prover.enabled:
        return f"Operations are not proven automatically (SPRINGLINE_PROVE is off); {manual_hint}"
    key = operation.name, operation.version
    if any((plan.operation, plan.version) == key for plan in platform.prover.plan(only=[key])):
        return f"An idle persister will run {operation.name} a second time to prove it; {manual_hint}"
    return f"{operation.name} is not proven automatically, since its output is small and cheap; {manual_hint}"


def _queue_position(platform: Platform, dataset: Dataset, score: Score) -> int:
    """Count the generations before it: near the front by current scores, as displayed, else by stored ones."""
    refs = platform.claims.list_claimable(_QUEUE_HEAD)
    if dataset.ref not in refs:
        return platform.claims.count_ahead(dataset, score.value)
    catalog = platform.catalog
    lineage = catalog.lineage_around(refs)
    order = order_by_priority(refs, lineage, catalog.load_cost_model(lineage), platform.persister.policy, catalog.now())
    return [ref for ref, _ in order].index(dataset.ref)
