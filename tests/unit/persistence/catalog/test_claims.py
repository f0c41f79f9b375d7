"""The queue and its leases: who may send what, and what becomes of a silent worker's claim."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from springline.persistence.catalog.claims import Claims, Lease, LeaseLostError
from springline.persistence.catalog.schema import db_now, generation
from springline.persistence.catalog.wait_report import load_wait_report
from springline.persistence.model.dataset import Call, Dataset, Strategy, TransferMethod, UnderStoreState
from springline.persistence.model.transitions import Event
from springline.persistence.platform import Platform
from springline.testing.lines import make_dataset as make
from tests.support.datasets.stages import stage
from tests.support.datasets.states import end_pauses, events_of, expire_leases, pause_of


def claimed(platform: Platform, dataset: Dataset, owner: str = "one") -> Lease:
    """A lease on a generation of its own."""
    lease = platform.claims.claim(dataset.ref, owner, TransferMethod.DATA, 1.5)
    assert lease is not None
    return lease


def settle(platform: Platform, lease: Lease) -> Dataset:
    """Record a copy made under a lease."""
    return platform.claims.complete(
        lease, method=TransferMethod.DATA, location=f"somewhere-{lease.number}", checksum="c", actual_seconds=2.5
    )


def test_a_job_waits_for_a_transfer_only_while_it_writes_synchronously(platform: Platform) -> None:
    """No one waits for a background transfer, nor does a synchronous one that has ended or fallen silent."""
    waits = []

    def ask_before_and_after_its_lease_expires(point: str, _: str) -> None:
        if point == "chunks":
            waits.append(platform.claims.has_sync_waiter())
            expire_leases(platform)
            waits.append(platform.claims.has_sync_waiter())

    stage(platform, ask_before_and_after_its_lease_expires)
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    make(platform, "b", "load", strategy=Strategy.ASYNC_STORE)
    assert not platform.claims.has_sync_waiter()
    platform.persister.drain()
    assert waits == [True, False, False, False]


def test_of_many_workers_that_claim_at_once_one_gets_it(open_at: Callable[..., Platform]) -> None:
    """Each in a thread of its own, with a connection of its own."""
    platforms = [open_at() for _ in range(4)]
    dataset = make(platforms[0], "a", "load")
    barrier = threading.Barrier(4)

    def is_claimed_by(platform: Platform) -> bool:
        barrier.wait()
        return platform.claims.claim(dataset.ref, "one of four", TransferMethod.DATA, None) is not None

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(is_claimed_by, platforms)) == [False, False, False, True]


def test_a_lease_that_ran_out_is_taken_back_once(platform: Platform) -> None:
    """Unless it was renewed; whoever looks first takes it, and the log names the silent owner."""
    dataset = make(platform, "a", "load")
    lease = claimed(platform, dataset, "the silent one")
    assert platform.claims.expire() == []
    expire_leases(platform)
    assert platform.claims.renew(lease) and platform.claims.expire() == []
    expire_leases(platform)
    assert platform.claims.expire() == [lease]
    assert platform.claims.expire() == []
    assert platform.catalog.get(dataset.ref).under is UnderStoreState.NONE
    assert "the silent one" in platform.catalog.history(dataset.ref)[-1].reason
    assert platform.claims.list_claimable(10) == [dataset.ref]


@pytest.mark.parametrize("meanwhile", ["renewed", "settled", "taken back"])
def test_a_lease_is_not_taken_back_if_something_happens_just_then(platform: Platform, meanwhile: str) -> None:
    """Between the look at the silent ones and the taking back."""
    dataset = make(platform, "a", "load")
    claimed(platform, dataset)
    expire_leases(platform)
    change = platform.catalog.apply

    def late(*args: object, **how: object):  # type: ignore[no-untyped-def]
        platform.catalog.apply = change  # type: ignore[method-assign]
        connection = args[0]
        if meanwhile == "renewed":
            this = generation.c.path == dataset.ref.path
            connection.execute(update(generation).where(this).values(lease_until=db_now() + 9))  # type: ignore[attr-defined]
        else:
            change(*args[:2], {"settled": Event.COPIED, "taken back": Event.RELEASED}[meanwhile])  # type: ignore[arg-type]
        return change(*args, **how)  # type: ignore[arg-type]

    platform.catalog.apply = late  # type: ignore[method-assign, assignment]
    assert platform.claims.expire() == []


def test_a_lost_lease_is_neither_renewed_nor_settled_nor_released(platform: Platform) -> None:
    """What a late worker says changes nothing, whether somebody has claimed again or not."""
    dataset = make(platform, "a", "load")
    late = claimed(platform, dataset)
    expire_leases(platform)
    platform.claims.expire()
    newest = None
    for _ in range(2):
        before = platform.catalog.get(dataset.ref), events_of(platform, dataset.ref)
        assert not platform.claims.renew(late)
        assert not platform.claims.release(late, "late", persist_requested=False)
        platform.claims.change_method(late, TransferMethod.OPERATION, 99.0)
        with pytest.raises(LeaseLostError):
            settle(platform, late)
        assert (platform.catalog.get(dataset.ref), events_of(platform, dataset.ref)) == before
        newest = newest or platform.claims.claim(dataset.ref, "two", TransferMethod.DATA, None)
    assert newest is not None and newest.number > late.number
    assert settle(platform, newest).under_location == f"somewhere-{newest.number}"


def test_a_release_says_why_and_sets_a_pause(platform: Platform) -> None:
    """It cannot be claimed until then, and is still counted as waiting; after weeks of attempts a pause is a minute."""
    dataset = make(platform, "a", "load")
    lease = claimed(platform, dataset)
    platform.claims.release(lease, "refused", pause=20, attempts=1)
    assert platform.claims.list_claimable(10) == [] and platform.claims.depth() == 1
    assert pause_of(platform, dataset.ref) == pytest.approx(20, abs=9.5)
    assert platform.catalog.get(dataset.ref).error == "refused"
    end_pauses(platform)
    assert platform.claims.list_claimable(10) == [dataset.ref]
    assert platform.claims.release(claimed(platform, dataset), "refused", pause=20, attempts=5_000)
    assert pause_of(platform, dataset.ref) == pytest.approx(60, abs=9.5)


def test_a_transfer_that_goes_well_clears_the_error_and_the_head(platform: Platform) -> None:
    """What is persisted is no longer urgent."""
    dataset = make(platform, "a", "load")
    platform.claims.release(claimed(platform, dataset), "refused")
    platform.catalog.amend(dataset.ref, expedited=True)
    settled = settle(platform, claimed(platform, dataset))
    assert (settled.error, settled.expedited, settled.actual_seconds) == ("", False, 2.5)
    assert settled.persisted_at is not None


def test_the_depth_counts_what_waits_and_what_is_under_way(platform: Platform) -> None:
    """Not what is unwanted, persisted, or still being written."""
    make(platform, "a", "load")
    make(platform, "b", "load", persist_requested=False)
    make(platform, "c", "load", strategy=Strategy.CACHE_THROUGH)
    with platform.store.write("d", strategy=Strategy.ASYNC_STORE) as writing:
        assert platform.claims.depth() == 1
        writing.mark_complete(platform.runner.run(Call("load", "1"), [], writing.uri))
    claimed(platform, platform.catalog.resolve("a"))
    assert platform.claims.depth() == 2


def test_the_queue_is_ordered_by_head_then_score_then_age(platform: Platform) -> None:
    """And can be read page by page."""
    refs = [make(platform, f"a{i}", "load").ref for i in range(4)]
    for ref, score in zip(refs, (1.0, 2.0, 1.0, 0.5), strict=True):
        platform.claims.rescore(ref, score)
    platform.catalog.amend(refs[3], expedited=True)
    in_order = [refs[3], refs[1], refs[0], refs[2]]
    assert platform.claims.list_claimable(10) == in_order
    assert platform.claims.list_claimable(2) + platform.claims.list_claimable(2, 2) == in_order
    ahead = [
        platform.claims.count_ahead(platform.catalog.get(ref), score) for ref, score in ((refs[3], 0.5), (refs[0], 1))
    ]
    assert ahead == [0, 2]


def test_a_lease_is_renewed_while_it_is_kept(platform: Platform) -> None:
    """In the background, each third of its time; the event is set once it is lost."""
    claims = Claims(platform.catalog, 0.03)
    dataset = make(platform, "a", "load")
    lease = claims.claim(dataset.ref, "one", TransferMethod.DATA, None)
    assert lease is not None
    renewed = threading.Event()
    answers = iter([OperationalError("", {}, Exception("away")), True, False])

    def renew(which: Lease, sent_bytes: int) -> bool:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        renewed.set()
        return answer

    claims.renew = renew  # type: ignore[method-assign, assignment]
    with claims.renewing(lease) as lost:
        assert lost.wait(30) and renewed.is_set()


def test_a_transfer_counts_the_bytes_that_it_has_sent(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunk by chunk, for the one who renews its lease."""
    counters: list[Callable[[], int]] = []
    renewing = platform.claims.renewing

    def listen(lease: Lease, sent_bytes: Callable[[], int]) -> AbstractContextManager[threading.Event]:
        counters.append(sent_bytes)
        return renewing(lease, sent_bytes)

    monkeypatch.setattr(platform.claims, "renewing", listen)
    counts: list[int] = []
    stage(platform, lambda point, _: counts.append(counters[0]()) if point in ("chunks", "chunk done") else None)
    dataset = make(platform, "a", "load", strategy=Strategy.ASYNC_STORE)
    platform.persister.drain()
    assert counts[:2] == [0, dataset.bytes]


def test_a_renewal_records_what_was_sent(platform: Platform) -> None:
    """Never more than there is; the next claim begins at zero."""
    dataset = make(platform, "a", "load")
    lease = claimed(platform, dataset)
    for reported in (70, 10**9):
        assert platform.claims.renew(lease, reported)
        (transfer,) = load_wait_report(platform.catalog).transfers
        assert (transfer.ref, transfer.owner) == (dataset.ref, "one")
        assert transfer.sent_bytes == min(reported, dataset.bytes)
    assert platform.claims.release(lease, "stopped")
    claimed(platform, dataset)
    (transfer,) = load_wait_report(platform.catalog).transfers
    assert (transfer.sent_bytes, transfer.attempts) == (0, 2)
