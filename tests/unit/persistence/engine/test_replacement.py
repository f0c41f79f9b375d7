"""Making room in the cache: what goes, what never goes, and what is checked again at the last moment."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest

from springline.persistence.decisions.eviction import Victim
from springline.persistence.engine.replacement import victim_by_hand
from springline.persistence.errors import StorageFullError
from springline.persistence.model.dataset import Call, Dataset, Operation, OperationResult, Strategy, TransferMethod
from springline.persistence.model.transitions import Event
from springline.persistence.platform import Platform
from springline.testing.lines import digest_of, lines_of, write_lines
from springline.testing.lines import make_dataset as make
from tests.support.datasets.states import copies_in, let_go

EVERYTHING = 10**9


def cached(platform: Platform) -> set[str]:
    """The paths that are in the cache, as the catalog says and as the files say."""
    datasets = {d.ref.path: d for d in platform.catalog.find() if d.in_cache}
    assert copies_in(platform.cache) == sorted(d.cache_location for d in datasets.values())
    return set(datasets)


def chain(platform: Platform, length: int) -> list[Dataset]:
    """d0 (persisted) -> d1 -> …, by an operation that has been seen to repeat itself."""
    datasets = [make(platform, "d0", "load", strategy=Strategy.CACHE_THROUGH)]
    for i in range(1, length):
        datasets.append(make(platform, f"d{i}", "shout", [f"d{i - 1}"]))
    record_reproduction(platform, datasets[-1])
    return datasets


def record_reproduction(platform: Platform, dataset: Dataset, *, same: bool = True) -> None:
    """Note a second run, with the same digest or another."""
    assert dataset.call is not None
    platform.catalog.record_reproduction(dataset.call, same=same)


def empty(platform: Platform) -> None:
    """Let everything go that may go."""
    for victim in platform.replacement.plan(EVERYTHING).victims:
        platform.replacement.evict(victim)


def test_persisted_ones_go_least_recently_used_first(open_at: Callable[..., Platform]) -> None:
    """As much as is needed, no more; the log has the rule and the reason."""
    platform = open_at()
    datasets = [make(platform, path, "load", strategy=Strategy.CACHE_THROUGH) for path in ("a", "b", "c")]
    lines_of(platform, "a")
    tight = open_at(cache_capacity=2 * datasets[0].bytes)
    assert tight.replacement.ensure_free_bytes(0) == 0
    assert cached(tight) == {"a", "c"}
    entry = platform.catalog.history(datasets[1].ref)[-1]
    assert entry.event == Event.EVICTED and entry.reason.startswith("persisted: ") and "verified copy" in entry.reason


def disk_of(platform: Platform, size: int, *, others: int = 0) -> None:
    """Let the cache be on a disk of `size` bytes, of which other files take some."""
    cache = platform.cache
    cache.free_bytes = lambda: max(size - others - sum(f.stat().st_size for f in cache.root.rglob("*.txt")), 0)  # type: ignore[attr-defined, method-assign]


def test_the_disk_bounds_the_cache_as_its_capacity_does(platform: Platform) -> None:
    """With the default capacity on a small disk persisted ones go before each write and each restore."""
    size = make(platform, "d0", "load", strategy=Strategy.CACHE_THROUGH).bytes
    disk_of(platform, 4 * size)
    for number in range(1, 8):
        with platform.store.write(f"d{number}", strategy=Strategy.CACHE_THROUGH) as writing:
            assert not writing.bypasses_cache and platform.cache.free_bytes() >= size  # type: ignore[operator]
            write_lines(writing.uri, ["x" * (size - 1)])
            writing.mark_complete(OperationResult(1, digest_of(["x" * (size - 1)]), 0.0))
    assert platform.replacement.capacity == 4 * size
    for number in range(8):
        assert lines_of(platform, f"d{number}") and platform.catalog.cache_used() <= 4 * size


def test_a_disk_that_others_fill_is_bypassed_and_one_that_fills_up_during_a_write_is_cleared(
    platform: Platform,
) -> None:
    """The error has the place, the size and the remedy, and the next try has room."""
    size = make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH).bytes
    disk_of(platform, 2 * size)
    with (
        pytest.raises(StorageFullError, match=r"b@1: no space left at file://.* after \d+ B; .* try again"),
        platform.store.write("b", strategy=Strategy.ASYNC_STORE) as writing,
    ):
        write_lines(writing.uri, ["x" * size])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert cached(platform) == set() and platform.cache.free_bytes() == 2 * size
    disk_of(platform, 2 * size, others=2 * size)
    make(platform, "b", lines=["x"])
    assert cached(platform) == set() and lines_of(platform, "b") == ["x"]


def test_an_unwanted_one_may_go_as_soon_as_it_can_be_recomputed(platform: Platform) -> None:
    """Temporary files need no persisting, and still are not thrown away for good."""
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    temporary = make(platform, "b", "shout", ["a"], persist_requested=False)
    irreplaceable = make(platform, "c", "salt", ["a"], persist_requested=False)
    record_reproduction(platform, temporary)
    empty(platform)
    assert cached(platform) == {irreplaceable.ref.path}
    assert len(lines_of(platform, "b")) == 100


def test_cache_only_ones_may_go_for_good(platform: Platform) -> None:
    """That strategy promises nothing."""
    make(platform, "a", "load", strategy=Strategy.CACHE_ONLY)
    empty(platform)
    assert cached(platform) == set()


def test_what_is_read_pinned_copied_or_written_stays(platform: Platform) -> None:
    """Whatever the rules would allow, someone needs it now."""
    read, pinned, copied = (make(platform, path, "load", strategy=Strategy.CACHE_THROUGH) for path in "abc")
    platform.catalog.amend(pinned.ref, pinned=True)
    platform.catalog.change(copied.ref, Event.UNDER_STORE_LOST)
    assert platform.claims.claim(copied.ref, "worker", TransferMethod.DATA, None) is not None
    with platform.store.read("a"), platform.store.write("e", strategy=Strategy.ASYNC_STORE) as writing:
        operation_result = platform.runner.run(Call("load", "1"), [], writing.uri)
        empty(platform)
        assert {d.ref.path for d in platform.catalog.find() if d.in_cache} == {"a", "b", "c"}
        for ref in (read.ref, pinned.ref, copied.ref):
            assert not platform.replacement.evict(victim_by_hand(ref, 1))
        writing.mark_complete(operation_result)
    assert cached(platform) == {"a", "b", "c", "e"}
    assert platform.replacement.evict(victim_by_hand(read.ref, 1))


def test_a_reader_that_never_came_back_holds_nothing_for_ever(open_at: Callable[..., Platform]) -> None:
    """Its hold ends by the database's clock."""
    platform = open_at(reader_lease_seconds=1e-9)
    dataset = make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    with platform.store.read("a"):
        assert platform.replacement.evict(victim_by_hand(dataset.ref, 1))


def test_only_what_is_persisted_goes_by_hand(platform: Platform) -> None:
    """A person's choice is checked like any other."""
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    dataset = make(platform, "b", "shout", ["a"])
    record_reproduction(platform, dataset)
    assert not platform.replacement.evict(victim_by_hand(dataset.ref, dataset.bytes))
    assert cached(platform) == {"a", "b"}


def change(platform: Platform, event: str, source: Dataset, dataset: Dataset, child: Dataset) -> None:
    """What may happen between the plan and its execution."""
    if event == "its copy below is lost":
        platform.catalog.change(source.ref, Event.UNDER_STORE_LOST)
    elif event == "its source goes":
        platform.catalog.change(source.ref, Event.UNDER_STORE_LOST)
        lose(platform, source)
    elif event == "its operation is nondeterministic":
        record_reproduction(platform, dataset, same=False)
    elif event == "the code of its operation goes":
        platform.store.register_operations([Operation("shout", "2", idempotent=True)])
    elif event == "what was made from it goes":
        let_go(platform, child.ref)
    elif event == "what was made from it is lost":
        lose(platform, child)
    elif event == "a person pins it":
        platform.catalog.amend(dataset.ref, pinned=True)


def lose(platform: Platform, dataset: Dataset) -> None:
    """Lose the cached bytes of a generation, and notice it."""
    platform.cache.delete(dataset.cache_location)
    platform.restorer.verifier.verify(dataset)


@pytest.mark.parametrize(
    ("event", "victim", "goes"),
    [
        ("nothing", 0, True),
        ("its copy below is lost", 0, False),
        ("nothing", 1, True),
        ("its source goes", 1, False),
        ("its operation is nondeterministic", 1, False),
        ("the code of its operation goes", 1, False),
        ("what was made from it goes", 1, False),
        ("what was made from it is lost", 1, False),
        ("a person pins it", 1, False),
    ],
)
def test_what_changed_since_the_plan_is_seen_at_the_last_moment(
    platform: Platform, event: str, victim: int, *, goes: bool
) -> None:
    """A victim whose rule no longer holds stays, and its bytes with it."""
    datasets = chain(platform, 3)
    rule = "persisted" if victim == 0 else "alternate"
    change(platform, event, *datasets)
    dataset = datasets[victim]
    assert platform.replacement.evict(Victim(dataset.ref, dataset.bytes, rule, "planned before")) is goes
    assert platform.catalog.get(dataset.ref).in_cache is not goes
    assert platform.cache.exists(dataset.cache_location) is not goes


def test_a_write_makes_room_for_itself(open_at: Callable[..., Platform]) -> None:
    """After a commit the cache is within its capacity again, without anyone asking."""
    platform = open_at(cache_capacity=2000)
    for i in range(5):
        make(platform, f"a{i}", "load", strategy=Strategy.CACHE_THROUGH)
        assert platform.catalog.cache_used() <= 2000
    assert len(cached(platform)) == 2
