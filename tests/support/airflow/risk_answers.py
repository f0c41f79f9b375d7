"""What the API answers to the pages of the queue and of the risks, in its own shapes."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from springline.airflow.api.queue import PersistExplanation, QueueListing
from springline.airflow.api.risk import RiskHistory
from springline.airflow.lineage.queue import QueueEntry, RetryEntry, SendingEntry, WhatIfPlace
from springline.airflow.lineage.remedies import Remedy
from springline.airflow.lineage.risks import DagShare, ExposedDataset, Risks
from springline.persistence.catalog.risk_samples import RiskSample
from springline.persistence.decisions.persist_status import PersistState

LONG = f"etl/2013-01-05/{'a-very-long-part-' * 11}x"
HOSTILE = ("etl/<script>alert(1)</script>", "שלום/עולם ומלואו", LONG)


def exposed(path: str, **changes: Any) -> ExposedDataset:
    """A dataset that is only in the cache, the third in the queue."""
    sentence = "Persist it now, or wait: it is the 3rd in the queue, about 20 s of transfers until it is persisted."
    row = ExposedDataset(
        path=path, generation=1, bytes=125_000, seconds=1.25, dependents=3, irrecoverable_reasons=[],
        unproven_reasons=[], remedy=Remedy(PersistState.QUEUED, sentence, "", can_expedite=True, refusal=""),
        dag_id="etl", run_id="scheduled__2013-01-05T00:00:00+00:00", task_id="clean",
    )  # fmt: skip
    return replace(row, **changes)


def risks(*rows: ExposedDataset, **changes: Any) -> dict[str, Any]:
    """The risk of these datasets, now."""
    shares: dict[str, DagShare] = {}
    for row in rows:
        share = shares.get(row.dag_id, DagShare(row.dag_id, 0, 0, 0, 0.0))
        shares[row.dag_id] = DagShare(
            row.dag_id, share.bytes + row.bytes, share.unproven_bytes + (row.bytes if row.unproven_reasons else 0),
            share.irrecoverable_bytes + (row.bytes if row.irrecoverable_reasons else 0),
            share.recompute_seconds + (row.seconds or 0.0),
        )  # fmt: skip
    dags = list(shares.values())
    total, unproven = sum(dag.bytes for dag in dags), sum(dag.unproven_bytes for dag in dags)
    irrecoverable, seconds = sum(dag.irrecoverable_bytes for dag in dags), sum(dag.recompute_seconds for dag in dags)
    answer = Risks(
        timestamp=0.0, under_store_away="", wait_reason="",
        bytes=total, recomputable_bytes=total - irrecoverable - unproven, unproven_bytes=unproven,
        irrecoverable_bytes=irrecoverable, recompute_seconds=seconds, unmeasured=0,
        datasets=len(rows), dags=dags, exposed_datasets=rows,
    )  # fmt: skip
    return asdict(replace(answer, **changes))


def sample(timestamp: float, known_until: float, *values: float) -> RiskSample:
    """A sample of the bytes at risk, those unproven, those irrecoverable, and the seconds."""
    total, unproven, irrecoverable, seconds = values
    return RiskSample(timestamp, known_until, int(total), int(unproven), int(irrecoverable), seconds)


def history(*samples: RiskSample, dags: tuple[DagShare, ...] = ()) -> dict[str, Any]:
    """These samples, and the worst of them."""
    worst = max(samples, key=lambda each: each.severity, default=None)
    return asdict(RiskHistory(samples, worst if worst and worst.bytes else None, dags))


def entry(position: int, path: str, **changes: Any) -> QueueEntry:
    """A dataset that waits for its turn."""
    row = QueueEntry(
        position=position, path=path, generation=1, bytes=1_250_000 * position, recompute_seconds=12.5,
        irrecoverable=False, score=100.0 / position,
        terms={"P(loss within a day)": 0.13, "seconds saved": 12.5, "seconds to persist": 0.4},
        reason=f"a loss of the cache would cost 12.5 s of re-running {path}@1; persisting it takes 400 ms",
        expedited=False, method="data",
        method_reason="data: no run of clean has been measured yet (line through 12 measurements)",
        predicted_seconds=0.4, completes_in=0.4 * position, waited_seconds=35.0, waits_for=[], last_error="",
        dag_id="etl", run_id="r1", task_id="clean", what_if=None,
    )  # fmt: skip
    return replace(row, **changes)


def compared(row: QueueEntry, position: int) -> QueueEntry:
    """The same row with its position by the policy `paper`."""
    return replace(row, what_if=WhatIfPlace(position, -4.0, "its operation is idempotent, it is no checkpoint: P = -4"))


def sending(path: str, **changes: Any) -> SendingEntry:
    """A dataset of which a quarter is sent."""
    row = SendingEntry(
        path=path, generation=1, bytes=80_000_000, sent_bytes=20_000_000, method="data", seconds=4.0,
        predicted_seconds=15.0, owner="persister worker-1:4711", attempts=1, is_blocking=False,
    )  # fmt: skip
    return replace(row, **changes)


def retry(path: str, **changes: Any) -> RetryEntry:
    """A dataset that could not be sent twice."""
    error = "the under-store is full: 3 MB are needed, 1.2 MB are free"
    return replace(RetryEntry(path, 1, 3_000_000, 2, 18.4, error, ""), **changes)


def queue(*entries: QueueEntry, **changes: Any) -> dict[str, Any]:
    """The queue of these datasets, of which none is sent."""
    answer = QueueListing(
        policy="value-density", what_if="", policies=["fifo", "paper", "value-density"], depth=len(entries),
        bytes=sum(row.bytes for row in entries), empty_in=entries[-1].completes_in if entries else 0.0,
        under_store_away="", oldest_seconds=35.0 if entries else None, wait_reason="", sending=[], entries=entries,
        retries=[],
    )  # fmt: skip
    answer = replace(answer, **changes)
    more = len(answer.sending) + len(answer.retries)
    return asdict(answer if "depth" in changes else replace(answer, depth=answer.depth + more))


def explanation(path: str, state: PersistState, sentence: str, **changes: Any) -> dict[str, Any]:
    """Why a dataset is not persisted."""
    answer = PersistExplanation(path, 1, state, sentence, 0, can_expedite=False, refusal="", wait_reason="")
    return asdict(replace(answer, **changes))
