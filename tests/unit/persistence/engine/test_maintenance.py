"""Maintenance: what scanning finds, what may retire, what is swept."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from springline.persistence.backends import local
from springline.persistence.catalog.schema import db_now, generation
from springline.persistence.errors import StorageUnavailableError, TransitionError
from springline.persistence.model.dataset import CacheState, Call, Origin, Phase, Ref, Strategy, TransferMethod
from springline.persistence.model.manifest import encode_manifest
from springline.persistence.model.transitions import Event
from springline.persistence.platform import Platform
from springline.testing.lines import lines_of, read_lines, write_lines
from springline.testing.lines import make_dataset as make
from tests.support.datasets.stages import once, raise_, stage
from tests.support.datasets.states import copies_in, damage, events_of, let_go

LINES = [f"line {i}" for i in range(100)]
RUN = Origin("etl", "run 1", "task")


def grow_old(platform: Platform) -> None:
    """Let all that is open have been started a day ago."""
    with platform.catalog.write_transaction() as connection:
        connection.execute(update(generation).values(created_at=db_now() - 86400))


# ---- scan


def test_a_scan_finds_what_is_missing_and_a_deep_one_what_is_damaged(platform: Platform) -> None:
    """Each is marked lost, and only that."""
    missing, damaged, intact = (make(platform, path, "load") for path in ("missing", "damaged", "whole"))
    platform.cache.delete(missing.cache_location)
    damage(platform.cache, damaged.cache_location)
    shallow = platform.maintenance.scan()
    assert (shallow.checked_count, shallow.lost) == (3, [missing.ref])
    assert platform.maintenance.scan(deep=True).lost == [damaged.ref]
    states = [platform.catalog.get(d.ref).cache for d in (missing, damaged, intact)]
    assert states == [CacheState.LOST, CacheState.LOST, CacheState.PRESENT]
    assert [d.ref for d in platform.maintenance.find_lost()] == [missing.ref, damaged.ref]


def test_what_a_disk_cannot_read_any_more_is_damaged_and_the_scan_goes_on(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is persisted again from the cache; a disk that does not answer at all has damaged nothing."""
    bad, damaged = (make(platform, path, "load", strategy=Strategy.CACHE_THROUGH) for path in ("bad", "damaged"))
    damage(platform.under, damaged.under_location)
    read = local._read_chunks

    def failing(path: Path) -> Iterator[bytes]:
        if bad.under_location in str(path):
            raise OSError(errno.EIO, "Input/output error")
        yield from read(path)

    monkeypatch.setattr(local, "_read_chunks", failing)
    with monkeypatch.context() as away:
        away.setattr(os, "statvfs", raise_(OSError(errno.EIO, "Input/output error")))
        assert list(platform.maintenance.scan(deep=True).unreachable) == [bad.ref]
    assert platform.catalog.get(bad.ref).persisted
    assert platform.maintenance.scan(deep=True).lost == [bad.ref]
    assert platform.persister.drain().persisted == 2


def test_what_cannot_be_checked_keeps_no_other_from_being_checked(platform: Platform) -> None:
    """It is named with the reason, and nothing is said of it."""
    locked, missing = make(platform, "locked", "load"), make(platform, "missing", "load")
    platform.cache.delete(missing.cache_location)
    cache, _, _ = stage(platform)
    cache.at = once("files", raise_(StorageUnavailableError("Permission denied")), where="locked")
    scan = platform.maintenance.scan()
    assert (scan.checked_count, scan.lost, scan.unreachable) == (1, [missing.ref], {locked.ref: "Permission denied"})
    assert platform.catalog.get(locked.ref).in_cache


@pytest.mark.parametrize("is_read_again", [False, True])
def test_what_left_the_cache_on_purpose_meanwhile_is_not_reported_lost(
    open_at: Callable[..., Platform], *, is_read_again: bool
) -> None:
    """An eviction beside a scan is no fault, nor a reader who fetches it again: the files that count are others."""
    scanner, other = open_at(), open_at()
    dataset = make(scanner, "a", "load", strategy=Strategy.CACHE_THROUGH)
    cache, _, _ = stage(scanner)

    def meanwhile() -> None:
        let_go(other, dataset.ref)
        assert not is_read_again or lines_of(other, "a") == LINES

    cache.at = once("files", meanwhile)
    assert scanner.maintenance.scan().lost == []
    assert scanner.catalog.get(dataset.ref).in_cache is is_read_again
    assert Event.LOST not in events_of(scanner, dataset.ref)


# ---- retire


def test_as_many_generations_stay_as_are_to_be_kept(open_at: Callable[..., Platform]) -> None:
    """The oldest go first."""
    platform = open_at(keep_generations=2)
    datasets = [make(platform, "a", lines=[str(i)]) for i in range(4)]
    assert platform.maintenance.retire() == [datasets[0].ref, datasets[1].ref]


def test_a_running_dag_run_holds_what_it_sees_and_what_it_made(platform: Platform) -> None:
    """Until it ends, though others have written the paths since."""
    old = make(platform, "a", lines=["old"])
    platform.store.begin_run(RUN)
    own_dataset = make(platform, "b", lines=["mine"], origin=RUN)
    for i in range(2):
        make(platform, "a", lines=[f"new {i}"])
    make(platform, "b", lines=["theirs"], origin=Origin("etl", "backfill", "task"))
    assert platform.maintenance.retire() == [Ref("a", 2)]
    assert (lines_of(platform, "a", RUN), lines_of(platform, "b", RUN)) == (["old"], ["mine"])
    platform.catalog.end_run(RUN, "success")
    assert platform.maintenance.retire() == [old.ref, own_dataset.ref]


def test_a_dag_run_that_never_ended_holds_nothing_for_ever(open_at: Callable[..., Platform]) -> None:
    """After the longest time that a reader may take it no longer counts."""
    platform = open_at(reader_lease_seconds=1e-9)
    old = make(platform, "a", lines=["old"])
    platform.store.begin_run(RUN)
    make(platform, "a", lines=["new"])
    assert platform.maintenance.retire() == [old.ref]


def test_a_dependent_that_is_being_written_holds_its_source(platform: Platform) -> None:
    """Its operation is reading it."""
    old = make(platform, "a", "load")
    call = Call("shout", "1")
    with platform.store.write("b", call=call, sources=[old.ref], strategy=Strategy.CACHE_ONLY) as writing:
        make(platform, "a", "load")
        assert platform.maintenance.retire() == []
        source = platform.cache.uri(old.cache_location)
        writing.mark_complete(platform.runner.run(call, [source], writing.uri))


def test_what_is_pinned_or_being_sent_does_not_retire(platform: Platform) -> None:
    """A person's pin, a worker's lease."""
    pinned, sent = make(platform, "a", "load"), make(platform, "b", "load")
    make(platform, "a", "load")
    make(platform, "b", "load")
    platform.catalog.amend(pinned.ref, pinned=True)
    lease = platform.claims.claim(sent.ref, "worker", TransferMethod.DATA, None)
    assert lease is not None and platform.maintenance.retire() == []
    platform.claims.release(lease, "")
    assert platform.maintenance.retire() == [sent.ref]


def test_an_older_generation_stays_while_the_newer_one_is_lost(platform: Platform) -> None:
    """The last readable bytes of a path are not removed because lost ones supersede them."""
    old = make(platform, "a", "load")
    new = make(platform, "a", "load")
    platform.cache.delete(new.cache_location)
    platform.maintenance.scan()
    assert platform.maintenance.retire() == []
    with platform.store.read("a", generation=old.ref.generation) as reading:
        assert read_lines(reading.uri) == LINES


def test_what_is_discarded_goes_for_good_though_nothing_came_after_it(platform: Platform) -> None:
    """From both stores; the next one that is written is a generation of its own."""
    discarded = make(platform, "a", lines=["gone"], strategy=Strategy.CACHE_THROUGH)
    platform.maintenance.discard(discarded.ref, "nobody wants it")
    assert copies_in(platform.cache) == copies_in(platform.under) == []
    assert platform.catalog.get(discarded.ref).phase is Phase.RETIRED
    assert platform.catalog.history(discarded.ref)[-1].reason == "nobody wants it"
    assert make(platform, "a", lines=["new"]).ref.generation == 2


def test_what_is_pinned_read_or_needed_is_not_discarded(platform: Platform) -> None:
    """The refusal says why, and nothing is removed."""
    pinned, read, needed = (make(platform, name, lines=[name]).ref for name in ("pinned", "read", "needed"))
    platform.catalog.amend(pinned, pinned=True)
    make(platform, "child", "shout", ["needed"])
    with platform.store.read("read"):
        for ref, reason in ((pinned, "it is pinned"), (read, "it is being read"), (needed, "unpersisted dataset")):
            with pytest.raises(TransitionError, match=f"{ref} is not retired: .*{reason}"):
                platform.maintenance.discard(ref, "nobody wants it")
            assert platform.catalog.get(ref).phase is Phase.COMMITTED
    platform.maintenance.discard(read, "nobody reads it any more")


def test_a_copy_made_while_it_was_decided_is_removed_too(open_at: Callable[..., Platform]) -> None:
    """The persister was quicker than the retirement: what it left below goes as well."""
    retiring, other = open_at(), open_at()
    old = make(retiring, "a", lines=["old"])
    new = make(retiring, "a", lines=["new"])
    select = retiring.catalog.select

    def late(query):  # type: ignore[no-untyped-def]
        rows = select(query)
        other.persister.drain()
        return rows

    retiring.catalog.select = late  # type: ignore[method-assign]
    assert retiring.maintenance.retire() == [old.ref]
    assert copies_in(retiring.under) == [other.catalog.get(new.ref).under_location]


def test_a_removal_cut_short_is_resumed_by_the_next_sweep(platform: Platform) -> None:
    """The generation is retired, its bytes are still there; the others are not kept waiting."""
    old = make(platform, "a", lines=["old"], strategy=Strategy.CACHE_THROUGH)
    new = make(platform, "a", lines=["new"], strategy=Strategy.CACHE_THROUGH)
    _, under, _ = stage(platform)
    under.at = once("names", raise_(StorageUnavailableError("away")))
    assert platform.maintenance.retire() == [old.ref]
    assert platform.catalog.get(old.ref).phase is Phase.RETIRED and platform.under.exists(old.under_location)
    platform.maintenance.sweep()
    assert copies_in(platform.under) == [new.under_location]


# ---- sweep


def test_a_write_whose_writer_never_came_back_is_abandoned(platform: Platform) -> None:
    """Wherever it wrote to, its half bytes go."""
    for path in ("a", "b"):
        dead = platform.catalog.begin(path, strategy=Strategy.ASYNC_STORE)
        write_lines(platform.cache.uri(dead.cache_location), ["half"])
    write_lines(platform.under.uri("b/@1-0_x"), ["half, straight down"])
    assert platform.maintenance.sweep() == []
    assert len(copies_in(platform.cache)) == 2
    grow_old(platform)
    assert sorted(platform.maintenance.sweep()) == [Ref("a", 1), Ref("b", 1)]
    assert copies_in(platform.cache) == [] and copies_in(platform.under) == []
    assert platform.catalog.get(Ref("a", 1)).phase is Phase.ABANDONED


def test_what_a_worker_wrote_after_it_was_taken_over_is_removed(platform: Platform) -> None:
    """It died before it noticed; the copy that counts stays, and so does one that a lost catalog may have named."""
    dataset = make(platform, "a", lines=LINES, strategy=Strategy.ASYNC_STORE)
    for worker in ("first", "second"):
        lease = platform.claims.claim(dataset.ref, worker, TransferMethod.DATA, None)
        assert lease is not None
        platform.claims.release(lease, "its lease ran out")
    assert platform.persister.drain().remaining == 0
    other = replace(dataset, created_at=1.0)
    for location, writer in {"a/@1-1_half": None, "a/@1-1_late": dataset, "a/@1-2_lost": other}.items():
        write_lines(platform.under.uri(location), ["left"])
        if writer is not None:
            platform.under.publish(location, encode_manifest(writer, platform.under.manifest(location)))
    platform.maintenance.sweep()
    assert copies_in(platform.under) == ["a/@1-2_lost", platform.catalog.get(dataset.ref).under_location]


def test_a_writer_that_comes_back_during_the_sweep_keeps_what_it_committed(open_at: Callable[..., Platform]) -> None:
    """It was slower than it may be, and done just in time."""
    sweeping, writer = open_at(), open_at()
    select = sweeping.catalog.select
    with writer.store.write("a", strategy=Strategy.ASYNC_STORE) as writing:
        writing.mark_complete(writer.runner.run(Call("load", "1"), [], writing.uri))
        grow_old(writer)
        stale = [writer.catalog.find(phase=Phase.OPEN)]
    sweeping.catalog.select = lambda query: stale.pop() if stale else select(query)  # type: ignore[method-assign]
    assert sweeping.maintenance.sweep() == []
    assert lines_of(writer, "a") == LINES


def test_what_a_dead_recovery_or_eviction_left_in_the_cache_is_swept(platform: Platform) -> None:
    """Half copies and forgotten whole ones go once they are old; what counts stays, and so does another catalog's."""
    dataset = make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    evicted = make(platform, "b", "load", strategy=Strategy.CACHE_THROUGH)
    platform.catalog.change(evicted.ref, Event.EVICTED)  # and the evictor died before it deleted the files
    for location in ("a/@1-1_dead", "a/@1-2_dead", "unknown/@7", "unknown/@7-1_x"):
        write_lines(platform.cache.uri(location), ["left"])
    platform.maintenance.sweep()
    assert copies_in(platform.cache) == [dataset.cache_location, "unknown/@7", "unknown/@7-1_x"]
    assert lines_of(platform, "a") == LINES == lines_of(platform, "b")


def test_what_is_just_being_restored_is_not_swept(platform: Platform) -> None:
    """A copy under way is young by its name."""
    dataset = make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    let_go(platform, dataset.ref)
    cache, _, _ = stage(platform)
    for point in ("create", "manifest"):
        cache.at = once(point, platform.maintenance.sweep)
        assert lines_of(platform, "a") == LINES
        assert Event.LOST not in events_of(platform, dataset.ref)
        let_go(platform, dataset.ref)
