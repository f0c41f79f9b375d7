"""A discrete-event simulation of one persister: which generation is persisted when, and what a fault would cost then.

The persister sends one generation at a time, the one with the highest score among those that wait. What a
fault costs is worked out here from the recording alone, not with the code of the policies.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.datasets.record import RecordedGeneration, Recording
from springline.persistence.decisions.priority import Policy
from springline.persistence.decisions.transfer import plan_transfer
from springline.persistence.model.cost_model import CostModel, Measurement
from springline.persistence.model.dataset import (
    Dataset,
    ExecutionSide,
    Operation,
    Phase,
    Ref,
    TransferMethod,
    UnderStoreState,
)
from springline.persistence.model.lineage import Lineage

_PER_TRANSFER = 0.05  # seconds: opening, verifying, renaming
_SMALL_BYTES = 1 << 20


@dataclass(frozen=True)
class Setup:
    """What every policy finds: bytes a second of the link; may operations be sent; are landing files safe?

    `synchronous`: what cannot be recomputed is persisted by its writer, before anybody sees it (Async&Sync).
    `storage_factor`: how much longer an operation takes beside the under-store.
    """

    bandwidth: float
    operations: bool = False
    synchronous: bool = True
    storage_factor: float = 2.0


@dataclass(frozen=True)
class Trace:
    """When each generation was persisted, how many went as their operation, and when the last one was done."""

    persisted_at: Mapping[Ref, float]
    as_operations: int
    ended_at: float


@dataclass(frozen=True)
class Loss:
    """What the loss of the whole cache costs at one moment."""

    recompute_seconds: float
    irrecoverable_bytes: int
    irrecoverable: int
    exposed_bytes: int  # wanted, and only in the cache


def simulate(recording: Recording, policy: Policy, setup: Setup) -> Trace:
    """Persist everything that is wanted in the order of `policy`, as it appears."""
    catalog = _SimulatedCatalog(recording, setup)
    costs = _costs(recording, setup)
    now, as_operations = 0.0, 0
    while True:
        now = catalog.advance(now)
        waiting = catalog.waiting()
        if not waiting:
            if (upcoming := catalog.next_commit()) is None:
                return Trace(catalog.persisted_at, as_operations, now)
            now = upcoming
            continue
        lineage = catalog.lineage()
        best = max(
            waiting,
            key=lambda generation: (policy.score(generation.ref, lineage, costs, now).value, -generation.committed_at),
        )
        method = (
            plan_transfer(best.ref, lineage, costs, small_bytes=_SMALL_BYTES).method
            if setup.operations
            else TransferMethod.DATA
        )
        if method is TransferMethod.OPERATION:
            as_operations += 1
            now += best.seconds * setup.storage_factor
        else:
            now += best.bytes / setup.bandwidth
        now += _PER_TRANSFER
        catalog.persist(best.ref, now)


def loss_at(recording: Recording, persisted_at: Mapping[Ref, float], moment: float) -> Loss:
    """What the loss of the cache at `moment` costs.

    Wanted again are all wanted generations that are not persisted, and whatever operations that have not
    ended yet read. They are run again, with everything unpersisted upstream, or are irrecoverable.
    """
    repeatable = {(o.name, o.version) for o in recording.operations if o.idempotent}
    there = [generation for generation in recording.datasets if generation.committed_at <= moment]
    exposed = {
        generation.ref: generation for generation in there if persisted_at.get(generation.ref, float("inf")) > moment
    }
    possible: set[Ref] = set()
    for generation in exposed.values():
        is_repeatable = generation.call is not None and (generation.call.name, generation.call.version) in repeatable
        if is_repeatable and all(s in possible or s not in exposed for s in generation.sources):
            possible.add(generation.ref)
    needed = {ref for ref, generation in exposed.items() if generation.persist_requested}
    for generation in recording.datasets[len(there) :]:
        needed.update(source for source in generation.sources if source in exposed)
    irrecoverable = [exposed[ref] for ref in needed if ref not in possible]
    runs: list[float] = []
    for ref, generation in reversed(exposed.items()):
        if ref in needed and ref in possible:
            runs.append(generation.seconds)
            needed.update(source for source in generation.sources if source in exposed)
    return Loss(
        recompute_seconds=sum(runs),
        irrecoverable_bytes=sum(generation.bytes for generation in irrecoverable),
        irrecoverable=len(irrecoverable),
        exposed_bytes=sum(generation.bytes for generation in exposed.values() if generation.persist_requested),
    )


def losses(recording: Recording, trace: Trace, moments: Sequence[float]) -> list[Loss]:
    """The loss at each of `moments`; it changes only when something is committed or persisted."""
    changes = sorted({*(generation.committed_at for generation in recording.datasets), *trace.persisted_at.values()})
    loss_by_place: dict[int, Loss] = {}
    results = []
    for moment in moments:
        place = bisect_right(changes, moment)
        if place not in loss_by_place:
            loss_by_place[place] = loss_at(recording, trace.persisted_at, moment)
        results.append(loss_by_place[place])
    return results


def not_recomputable(recording: Recording) -> frozenset[Ref]:
    """What Async&Sync persists synchronously: all that cannot be recomputed from what is persisted so."""
    repeatable = {(o.name, o.version) for o in recording.operations if o.idempotent}
    calls = ((generation.ref, generation.call) for generation in recording.datasets)
    return frozenset(ref for ref, call in calls if call is None or (call.name, call.version) not in repeatable)


class _SimulatedCatalog:
    """What the catalog would hold at a moment, and what waits to be persisted."""

    def __init__(self, recording: Recording, setup: Setup) -> None:
        self._operations: Mapping[tuple[str, str], Operation] = {(o.name, o.version): o for o in recording.operations}
        self._readers = recording.readers
        self._generations = {generation.ref: generation for generation in recording.datasets}
        synchronous = not_recomputable(recording) if setup.synchronous else frozenset()
        self.persisted_at: dict[Ref, float] = {ref: self._generations[ref].committed_at for ref in synchronous}
        events = [(generation.committed_at, "commit", generation.ref) for generation in recording.datasets]
        events += [(generation.started_at, "begin", generation.ref) for generation in recording.datasets]
        events += [(at, "read", generation.ref) for generation in recording.datasets for at in generation.read_at]
        self._events = sorted(events, reverse=True)
        self._datasets: dict[Ref, Dataset] = {}
        self._waiting: dict[Ref, RecordedGeneration] = {}

    def advance(self, now: float) -> float:
        """Let everything happen that was recorded up to `now`."""
        while self._events and self._events[-1][0] <= now:
            at, what, ref = self._events.pop()
            if what == "begin":
                self._datasets[ref] = self._opened(self._generations[ref])
            elif what == "read":
                self._change(ref, reads=self._datasets[ref].reads + 1, last_read_at=at)
            else:
                self._change(ref, phase=Phase.COMMITTED, committed_at=at)
                if ref in self.persisted_at:
                    self._change(ref, under=UnderStoreState.PRESENT)
                elif self._generations[ref].persist_requested:
                    self._waiting[ref] = self._generations[ref]
        return now

    def next_commit(self) -> float | None:
        """When something is committed next."""
        return next((at for at, what, _ in reversed(self._events) if what == "commit"), None)

    def waiting(self) -> list[RecordedGeneration]:
        """What wants persisting now."""
        return list(self._waiting.values())

    def lineage(self) -> Lineage:
        """All that the catalog knows now."""
        return Lineage(dict(self._datasets), self._operations, self._readers)

    def persist(self, ref: Ref, at: float) -> None:
        """Its verified copy is in the under-store."""
        self.persisted_at[ref] = at
        self._change(ref, under=UnderStoreState.PRESENT)
        del self._waiting[ref]

    def _change(self, ref: Ref, **fields: object) -> None:
        self._datasets[ref] = replace(self._datasets[ref], **fields)  # type: ignore[arg-type]

    @staticmethod
    def _opened(generation: RecordedGeneration) -> Dataset:
        return Dataset(
            generation.ref,
            phase=Phase.OPEN,
            bytes=generation.bytes,
            persist_requested=generation.persist_requested,
            checkpoint=generation.checkpoint,
            call=generation.call,
            sources=generation.sources,
            compute_seconds=generation.seconds,
            created_at=generation.started_at,
        )


def _costs(recording: Recording, setup: Setup) -> CostModel:
    """What was measured before: the link, and every operation on the storage side."""
    size = {generation.ref: generation.bytes for generation in recording.datasets}
    compute: dict[tuple[str, ExecutionSide], list[Measurement]] = {}
    for generation in recording.datasets:
        if generation.call:
            read = sum(size.get(source, 0) for source in generation.sources)
            measured = Measurement(read, generation.seconds * setup.storage_factor)
            compute.setdefault((generation.call.name, ExecutionSide.STORAGE), []).append(measured)
    link = [Measurement(n * 10_000_000, _PER_TRANSFER + n * 10_000_000 / setup.bandwidth) for n in range(1, 6)]
    return CostModel(link, compute)
