"""An under-store that is away: nothing leaves the cache on the word of the catalog, and a read is an error."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from springline.airflow.operators import maintenance
from springline.persistence.actions import DatasetAction, apply_decision, decide_action
from springline.persistence.backends.root_mark import MARK_NAME
from springline.persistence.engine.replacement import victim_by_hand
from springline.persistence.engine.verification import UnderStoreWatch
from springline.persistence.errors import CorruptCopyError, StorageUnavailableError, UnderStoreUnavailableError
from springline.persistence.metrics_collector import read_gauges
from springline.persistence.model.dataset import Dataset, Ref, Strategy, TransferMethod
from springline.persistence.model.transitions import Event
from springline.persistence.monitoring.metrics import RISK_IRRECOVERABLE_BYTES
from springline.persistence.platform import Platform
from springline.testing.lines import lines_of
from springline.testing.lines import make_dataset as make
from tests.support.commands import invoke
from tests.support.datasets.stages import once, stage
from tests.support.datasets.states import copies_in, let_go

EVERYTHING = 10**9


def remove_root(platform: Platform, how: str = "moved") -> Path:
    """Take the under-store's folder away: moved, as by a person, or unmounted, which leaves an empty folder."""
    root: Path = platform.under.root  # type: ignore[attr-defined]
    moved_root = root.rename(root.with_name("away"))
    if how == "unmounted":
        root.mkdir()
    return moved_root


def restore_root(platform: Platform, moved_root: Path) -> None:
    """Put it back."""
    root: Path = platform.under.root  # type: ignore[attr-defined]
    shutil.rmtree(root, ignore_errors=True)
    moved_root.rename(root)


def persisted(platform: Platform, path: str = "a") -> Dataset:
    """A dataset that was persisted before anybody saw it."""
    return make(platform, path, "load", strategy=Strategy.CACHE_THROUGH)


def stays(platform: Platform, dataset: Dataset) -> bool:
    """It is in the cache, as the catalog and the files say."""
    return platform.catalog.get(dataset.ref).in_cache and platform.cache.exists(dataset.cache_location)


def file_below(platform: Platform, dataset: Dataset) -> Path:
    """The only file of a dataset's copy in the under-store."""
    (file,) = platform.under.files(dataset.under_location)
    return platform.under.root / dataset.under_location / file.name  # type: ignore[attr-defined]


# ---- what leaves the cache


@pytest.mark.parametrize("how", ["moved", "unmounted"])
def test_nothing_leaves_the_cache_while_the_under_store_is_away(open_at: Callable[..., Platform], how: str) -> None:
    """Neither by the rules, nor by hand, nor to make room; all goes again when it is back."""
    platform = open_at(cache_capacity=2000)
    dataset = persisted(platform)
    moved_root = remove_root(platform, how)
    plan = platform.replacement.plan(EVERYTHING)
    assert plan.victims == () and "does not answer" in plan.retention_reasons[dataset.ref]
    assert str(moved_root.parent) in plan.retention_reasons[dataset.ref]
    with pytest.raises(UnderStoreUnavailableError, match=r"^a@1 stays in the cache: .* does not answer: .*under"):
        platform.replacement.evict(victim_by_hand(dataset.ref, dataset.bytes))
    blocker = platform.replacement.retention_reason(dataset)
    refused = decide_action(dataset, DatasetAction.EVICT, eviction_blocker=blocker)
    assert not refused.allowed and "does not answer" in refused.message
    with pytest.raises(StorageUnavailableError, match="does not answer"):
        apply_decision(platform, decide_action(dataset, DatasetAction.EVICT), "Eva")
    assert platform.replacement.ensure_free_bytes(2000) == platform.catalog.cache_used() == dataset.bytes
    assert stays(platform, dataset)
    restore_root(platform, moved_root)
    assert platform.replacement.ensure_free_bytes(2000) == 0
    assert not stays(platform, dataset) and lines_of(platform, "a") == [f"line {i}" for i in range(100)]


@pytest.mark.parametrize("damage", ["gone", "cut short", "a missing file"])
def test_a_copy_that_is_not_there_with_its_size_holds_its_dataset_in_the_cache(platform: Platform, damage: str) -> None:
    """The loss is noted, so that it is persisted again; then it may go."""
    dataset = persisted(platform)
    file = file_below(platform, dataset)
    if damage == "gone":
        platform.under.delete(dataset.under_location)
    elif damage == "cut short":
        file.write_bytes(file.read_bytes()[:-10])
    else:
        file.unlink()
    assert not platform.replacement.evict(victim_by_hand(dataset.ref, dataset.bytes))
    assert stays(platform, dataset)
    assert [moment.event for moment in platform.catalog.history(dataset.ref)][-1] == Event.UNDER_STORE_LOST
    assert platform.persister.drain().persisted == 1
    assert platform.replacement.evict(victim_by_hand(dataset.ref, dataset.bytes))


@pytest.mark.parametrize("is_cut_short", [False, True])
def test_a_copy_that_an_operation_made_below_is_asked_for_by_its_own_size(
    platform: Platform, *, is_cut_short: bool
) -> None:
    """It has other bytes than the one in the cache: its manifest says how many."""
    persisted(platform, "a")
    output = make(platform, "b", "shout", ["a"])
    with platform.persister.sender.attempt(output.ref, "test", TransferMethod.OPERATION, None) as attempt:
        assert attempt is not None
        dataset = attempt.send_operation(output, [platform.catalog.get(Ref("a", 1))])
    assert dataset.under_checksum != dataset.checksum
    if is_cut_short:
        file = file_below(platform, dataset)
        file.write_bytes(file.read_bytes()[:-1])
    assert platform.replacement.evict(victim_by_hand(dataset.ref, dataset.bytes)) is not is_cut_short
    assert stays(platform, dataset) is is_cut_short


def test_what_would_be_recomputed_from_a_copy_below_stays_if_that_is_not_there(platform: Platform) -> None:
    """The source left the cache; its copy is asked for before what is made from it goes."""
    source = persisted(platform)
    dataset = make(platform, "b", "shout", ["a"])
    assert dataset.call is not None
    platform.catalog.record_reproduction(dataset.call, same=True)
    let_go(platform, source.ref)
    (victim,) = platform.replacement.plan(EVERYTHING).victims
    assert victim.rule == "alternate"
    platform.under.delete(source.under_location)
    assert not platform.replacement.evict(victim)
    assert stays(platform, dataset)


def test_what_is_larger_than_the_cache_is_not_let_go_on_a_copy_that_went(open_at: Callable[..., Platform]) -> None:
    """The write fails, as if the under-store had gone a moment earlier, and the task's next try makes it."""
    platform = open_at(cache_capacity=100)
    _, under, _ = stage(platform)
    under.at = once("publish done", lambda: remove_root(platform))
    with pytest.raises((StorageUnavailableError, CorruptCopyError)):
        persisted(platform)


@pytest.mark.parametrize("how", ["moved", "unmounted"])
def test_nothing_is_retired_while_the_under_store_is_away(platform: Platform, how: str) -> None:
    """The older generation may be all that is left."""
    older, newer = persisted(platform), persisted(platform)
    let_go(platform, newer.ref)
    moved_root = remove_root(platform, how)
    with pytest.raises(StorageUnavailableError, match="nothing is retired"):
        platform.maintenance.retire()
    assert stays(platform, older)
    restore_root(platform, moved_root)
    assert platform.maintenance.retire() == [older.ref]


def test_an_older_generation_is_kept_while_the_copy_of_the_newer_is_not_there(platform: Platform) -> None:
    """What the catalog calls readable is asked for before what it replaced goes."""
    older, newer = persisted(platform), persisted(platform)
    let_go(platform, newer.ref)
    platform.under.delete(newer.under_location)
    assert platform.maintenance.retire() == []
    assert stays(platform, older)


@pytest.mark.parametrize("how", ["moved", "unmounted"])
def test_an_under_store_that_is_away_loses_nothing_and_takes_nothing(platform: Platform, how: str) -> None:
    """Neither a scan nor a reader marks a copy lost, none is written there, and what is cached is read."""
    dataset, cached = persisted(platform), persisted(platform, "cached")
    let_go(platform, dataset.ref)
    moved_root = remove_root(platform, how)
    with pytest.raises(StorageUnavailableError, match="is its disk mounted"):
        platform.maintenance.scan(deep=True)
    with pytest.raises(StorageUnavailableError), platform.store.read("a"):
        pass
    with pytest.raises(StorageUnavailableError):
        persisted(platform, "b")
    assert platform.catalog.get(dataset.ref).persisted and copies_in(platform.under) == []
    assert len(lines_of(platform, cached.ref.path)) == 100
    restore_root(platform, moved_root)
    assert lines_of(platform, "a") == [f"line {i}" for i in range(100)]


def test_the_first_copy_marks_an_under_store_that_did_not_answer_when_it_was_opened(platform: Platform) -> None:
    """That copy is on its way already when the store is marked."""
    mark = platform.under.root / MARK_NAME  # type: ignore[attr-defined]
    mark.unlink()
    assert persisted(platform).persisted
    assert mark.is_file() and platform.under.unavailable_reason() == ""


# ---- what is answered


def run_command(platform: Platform, *arguments: str) -> tuple[int, str]:
    """What a command prints, and its exit code."""
    settings = platform.settings
    environment = {"SPRINGLINE_HOME": str(settings.home), "SPRINGLINE_CACHE_URI": settings.cache_uri}
    result = invoke(*arguments, env=environment)
    return result.exit_code, " ".join(result.output.split())


def test_what_is_only_believed_to_be_persisted_is_at_risk(platform: Platform) -> None:
    """The sentence that says so names the store; JSON says as much."""
    cached, evicted = persisted(platform, "cached"), persisted(platform, "evicted")
    let_go(platform, evicted.ref)
    assert run_command(platform, "risk")[1] == "If the cache were lost now: nothing would be lost."
    remove_root(platform)
    code, output = run_command(platform, "risk")
    assert code == 3 and output.startswith(f"The under-store does not answer: {platform.under.root}")  # type: ignore[attr-defined]
    assert "According to the catalog it contains 2 datasets (1.58 kB), of which 1 dataset (790 B) cannot be" in output
    assert "If the cache were lost now: 790 B would be irrecoverable (cached@1)" in output
    row = json.loads(run_command(platform, "risk", "--json")[1])
    assert row["now"]["irrecoverable"] == [str(cached.ref)] and "does not answer" in row["under_store_away"]
    assert row["unverified_copies"] == {"datasets": 2, "bytes": 1580, "sole_copies": 1, "sole_copy_bytes": 790}


def test_status_recover_and_explain_say_that_the_under_store_is_away(platform: Platform) -> None:
    """In words, and to a machine; `recover` does not end well, for it cannot know."""
    dataset = persisted(platform)
    remove_root(platform)
    warning = f"the under-store does not answer: {platform.under.root} does not exist"  # type: ignore[attr-defined]
    code, output = run_command(platform, "dataset", "list")
    assert code == 0 and "data (sync), unavailable" in output and warning[1:] in output
    (row,) = json.loads(run_command(platform, "dataset", "list", "--json")[1])
    assert warning in row["under_store_away"]
    code, output = run_command(platform, "dataset", "recover")
    assert code == 3 and "0 lost" in output and warning[1:] in output
    code, output = run_command(platform, "dataset", "recover", "--json")
    assert code == 3 and warning in json.loads(output)["under_store_away"]
    code, output = run_command(platform, "dataset", "explain", "a")
    assert code == 0 and "verified copy" not in output
    assert f"according to the catalog a copy is in the under-store, but {warning}" in output
    assert "Unless its copy exists when the under-store is available again: it would be irrecoverable" in output
    row = json.loads(run_command(platform, "dataset", "explain", "a", "--json")[1])
    assert warning in row["under_store_away"] and str(dataset.ref) in row["recovery"]["irrecoverable"]


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_evict_says_what_stays_and_why(platform: Platform, dry_run: tuple[str, ...]) -> None:
    """By hand and by the rules; nothing goes, nor is said to go."""
    dataset = persisted(platform)
    remove_root(platform)
    code, output = run_command(platform, "dataset", "evict", "a", *dry_run)
    assert code == 3 and "stay" in output and "does not answer" in output and "0 B in 0 datasets" in output
    code, output = run_command(platform, "dataset", "evict", "a", "--json", *dry_run)
    row = json.loads(output)
    assert code == 3 and row["evicted"] == [] and "does not answer" in row["refused"]["a@1"]
    code, output = run_command(platform, "dataset", "evict", "--bytes", "1GB", *dry_run)
    assert "more cannot be freed: the under-store does not answer" in output
    assert stays(platform, dataset)


def test_the_maintenance_dag_ends_with_the_word_that_the_under_store_is_away(platform: Platform) -> None:
    """Once what can be brought back is back; its eviction frees nothing and says why."""
    dataset = persisted(platform)
    lost = make(platform, "b", "shout", ["a"])
    platform.cache.delete(lost.cache_location)
    remove_root(platform)
    with pytest.raises(UnderStoreUnavailableError, match="does not answer"):
        maintenance.recover(platform)
    assert platform.catalog.get(lost.ref).in_cache
    platform.replacement.limit = 1
    report = maintenance.evict(platform)
    assert report["freed"] == 0 and "does not exist" in report["under_store_away"]
    assert stays(platform, dataset)


def test_a_sample_of_the_risk_does_not_count_copies_that_are_away(platform: Platform) -> None:
    """The gauges neither: an alert on irrecoverable bytes begins."""
    dataset = persisted(platform)
    remove_root(platform)
    assert platform.catalog.sample_risk(find_unavailable_reason=platform.watch.unavailable_reason)
    (sample,) = platform.catalog.risk_since()
    assert (sample.bytes, sample.irrecoverable_bytes) == (dataset.bytes, dataset.bytes)
    gauges = {reading.metric: reading.value for reading in read_gauges(platform)}
    assert gauges[RISK_IRRECOVERABLE_BYTES] == dataset.bytes


def test_who_looks_often_has_the_store_asked_once_in_a_while(platform: Platform) -> None:
    """Pages look every few seconds, and a store that does not answer may take its time."""
    persisted(platform)
    now = [0.0]
    _, under, _ = stage(platform)
    asked: list[str] = []
    under.exists = lambda location: bool(asked.append(location))  # type: ignore[method-assign, func-returns-value]
    watch = UnderStoreWatch(platform.catalog, under, seconds=2.0, clock=lambda: now[0])
    assert (watch.unavailable_reason(), watch.unavailable_reason(), len(asked)) == ("", "", 1)
    remove_root(platform)
    now[0] = 2.0
    del under.exists
    assert "does not exist" in watch.unavailable_reason()
