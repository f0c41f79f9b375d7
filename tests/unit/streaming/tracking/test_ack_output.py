"""What springs send their ackers."""

from __future__ import annotations

import numpy as np
import pytest

from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes
from springline.spark_jobs.streaming.tracking import ack_output
from springline.spark_jobs.streaming.tracking.ack_output import AckOutput
from springline.spark_jobs.streaming.tracking.acker.table import AckTable
from springline.spark_jobs.streaming.tracking.folds import Fold, RowRanges
from springline.spark_jobs.streaming.tracking.ring import RingHistory
from springline.spark_jobs.streaming.tracking.root_id import root_id, roots_of
from springline.spark_jobs.streaming.tracking.wire import AckMessage


def test_many_roots_are_registered_in_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each says that all before the next one's first message is registered, the last one how far the source is."""
    monkeypatch.setattr(ack_output, "_ROOTS", 10)
    offsets, rows = np.array([3, 4, 7, 8, 9]), np.array([4, 0, 8, 9, 1])
    values = np.arange(1, 23, dtype=np.uint64)
    batches_by_acker = AckOutput(RingHistory.of([0, 1, 2], 3).as_json()).registrations(
        5, offsets, rows, values, registered_up_to=12
    )
    for batches in batches_by_acker.values():
        assert [AckMessage.read(arrow_bytes(batch)).registered_up_to for batch in batches] == [{5: 7}, {5: 8}, {5: 12}]
    circle, roots = AckOutput(RingHistory.of([0, 1, 2], 3).as_json()).ring, roots_of(5, offsets, rows)
    for acker, batches in batches_by_acker.items():
        part = AckTable("dense", acker, circle)
        for message in (AckMessage.read(arrow_bytes(batch)) for batch in batches):
            ends = np.concatenate([[0], np.cumsum(message.batch.column("values").value_lengths().to_numpy())])
            flat = message.batch.column("values").values.to_numpy()
            for row, (offset, size) in enumerate(zip(message.column("offset"), message.column("rows"), strict=True)):
                part.register_range(5, int(offset), 1, int(size), flat[ends[row] : ends[row + 1]], 1, 1, circle)
        is_owned = circle.owners_of(roots) == acker
        assert part.in_flight == is_owned.sum()
        part.ack(roots[is_owned], 1, values[is_owned], 1)
        assert not part.in_flight


def test_without_roots_the_source_reports_how_far_it_is() -> None:
    """In one batch."""
    empty = np.empty(0, np.int64)
    batches_by_acker = AckOutput(RingHistory.of([0], 1).as_json()).registrations(
        0, empty, empty, empty.astype(np.uint64), registered_up_to=9
    )
    (batch,) = batches_by_acker[0]
    assert AckMessage.read(arrow_bytes(batch)).registered_up_to == {0: 9}


def test_a_fold_is_registered_with_its_acker_and_every_acker_learns_how_far_the_source_is() -> None:
    """The same acker gets its acks, and its record when it is forwarded."""
    output = AckOutput(RingHistory.of([0, 1, 2], 3).as_json())
    owners = []
    for offset in range(60):
        fold = Fold.registration(5, RowRanges.of([offset, offset + 1], [4, 4]), 9)
        messages = {
            acker: AckMessage.read(arrow_bytes(*batch)) for acker, batch in output.folds([fold], {5: 99}).items()
        }
        assert [message.registered_up_to for message in messages.values()] == [{5: 99}] * 3
        (owner,) = [acker for acker, message in messages.items() if message.batch.num_rows]
        assert list(output.fold_acks({fold.first: 3})) == list(output.fold_records([fold])) == [owner]
        owners.append(owner)
    assert min(owners.count(acker) for acker in range(3)) > 10
    assert not any(batch.num_rows for (batch,) in output.folds([], {5: 99}).values())


def test_acks_of_several_folds_go_to_their_ackers() -> None:
    """Each with its value."""
    output = AckOutput(RingHistory.of([0, 1, 2], 3).as_json())
    values = {root_id(5, offset): offset + 1 for offset in range(60)}
    acks = [AckMessage.read(arrow_bytes(batch)) for batches in output.fold_acks(values).values() for batch in batches]
    assert len(acks) == 3
    pairs = [
        pair for ack in acks for pair in zip(ack.column("fold").tolist(), ack.column("value").tolist(), strict=True)
    ]
    assert dict(pairs) == values and len(pairs) == 60
