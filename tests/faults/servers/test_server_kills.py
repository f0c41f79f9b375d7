"""kill -9 of real servers, safe mode, and a server that does not answer: nothing is lost, and the queue goes on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xxhash

from springline.persistence.backends import hdfs_filesystem
from springline.persistence.explain import explain
from springline.persistence.model.dataset import Dataset, Strategy
from springline.persistence.model.manifest import File, Manifest
from springline.persistence.platform import Platform
from springline.testing.lines import LinesRunner, digest_of
from tests.support.datasets.states import end_pauses, events_of
from tests.support.datasets.workflow import (
    digests_below,
    digests_now,
    digests_without_faults,
    land,
    only_whole_copies_are_left,
    run_workflow,
)
from tests.support.servers.hdfs_admin import dfsadmin
from tests.support.servers.servers import Running
from tests.support.waiting import until

pytestmark = pytest.mark.nightly("servers are killed and started in each test")


def ran(platform: Platform, folder: Path) -> dict[str, Dataset]:
    """The workflow under Async&Sync: what was loaded is persisted, the rest waits in Alluxio alone."""
    return run_workflow(platform, land(folder), strategy=Strategy.ASYNC_AND_SYNC)


def goes_on_by_itself(platform: Platform) -> None:
    """Without anybody's help everything gets persisted, once, and whole."""
    assert platform.persister.drain(timeout=120).remaining == 0
    assert digests_below(platform) == digests_without_faults()
    assert only_whole_copies_are_left(platform, list(platform.under.copies()))
    for dataset in platform.catalog.find():
        assert events_of(platform, dataset.ref).count("copied") == 1


def waits_for(platform: Platform, what: str) -> None:
    """`explain` names the server and says what is the matter."""
    explanation = dict(explain(platform, "etl/clean").paragraphs())["Queue"]
    assert "The last attempt failed: hdfs://127.0.0.1" in explanation and what in explanation, explanation


def in_the_middle(platform: Platform, act: Callable[[], object]) -> None:
    """Let `act` happen once, between two chunks of a file that is sent below."""
    create = platform.under.create
    waiting = [act]

    def creating(location: str, name: str, size: int) -> Any:
        out = create(location, name, size)
        write = out.write

        def writing(chunk: bytes) -> int:
            half = len(chunk) // 2
            write(chunk[:half])
            if waiting:
                waiting.pop()()
            write(chunk[half:])
            return len(chunk)

        out.write = writing  # type: ignore[method-assign, assignment]
        return out

    platform.under.create = creating  # type: ignore[method-assign]


# ---- Alluxio


def test_the_data_of_a_killed_alluxio_worker_is_recomputed(
    platform: Platform, alluxio: Running, tmp_path: Path
) -> None:
    """Every output is what it would have been, whether or not the worker comes back with its blocks."""
    datasets = ran(platform, tmp_path)
    cache_locations = {d.ref.path: d.cache_location for d in datasets.values()}
    alluxio.kill("worker-1")
    until(lambda: all(_is_lost(platform, location) for location in cache_locations.values()), seconds=120, every=0.5)
    assert sorted(ref.path for ref in platform.maintenance.scan().lost) == sorted(cache_locations)
    assert not platform.restorer.plan([d.ref for d in datasets.values()]).irrecoverable
    alluxio.restart_stopped()
    platform.restorer.restore([d.ref for d in platform.maintenance.find_lost()])
    assert digests_now(platform) == digests_without_faults()
    goes_on_by_itself(platform)


def test_a_killed_alluxio_worker_that_comes_back_soon_has_lost_nothing(
    platform: Platform, alluxio: Running, tmp_path: Path
) -> None:
    """Its blocks are in memory that outlives it; the persister tries again until they can be read."""
    ran(platform, tmp_path)
    alluxio.kill("worker-1")
    threading.Thread(target=alluxio.restart_stopped).start()
    goes_on_by_itself(platform)
    assert digests_now(platform) == digests_without_faults()


def _is_lost(platform: Platform, location: str) -> bool:
    try:
        platform.cache.files(location)
    except FileNotFoundError:
        return True
    return False


# ---- HDFS


def test_a_write_goes_on_with_one_datanode_and_is_waited_for_without_any(
    platform: Platform, hdfs: Running, tmp_path: Path
) -> None:
    """When one dies, megabytes are on their way to both replicas: the other one gets the rest, verified.

    When that one dies too, no server takes the bytes of the queue; once they are back the queue goes on.
    """
    ran(platform, tmp_path)
    content = os.urandom(24 << 20)
    with platform.under.create("large/@1-1", "part.bin", len(content)) as out:
        for start in range(0, len(content), 1 << 20):
            out.write(content[start : start + (1 << 20)])
            if start == 12 << 20:
                hdfs.kill("datanode-1")
    sent = Manifest((File("part.bin", len(content), xxhash.xxh3_128_hexdigest(content)),))
    assert platform.under.holds("large/@1-1", sent)
    assert b"".join(platform.under.chunks("large/@1-1", "part.bin")) == content
    platform.under.delete("large")
    in_the_middle(platform, lambda: hdfs.kill("datanode-2"))
    outcome = platform.persister.step()
    assert outcome is not None and hdfs.address in outcome.error
    threading.Thread(target=hdfs.restart_stopped).start()
    goes_on_by_itself(platform)


def test_a_namenode_killed_during_persisting_is_waited_for(platform: Platform, hdfs: Running, tmp_path: Path) -> None:
    """Each try says which server does not answer, what is cached is read; when it is back the queue goes on."""
    datasets = ran(platform, tmp_path)
    in_the_middle(platform, lambda: hdfs.kill("namenode"))
    summary = platform.persister.drain()
    assert summary.persisted == 0 and summary.remaining == len(datasets) - 1
    waits_for(platform, "HDFS does not answer")
    assert digests_now(platform) == digests_without_faults()
    threading.Thread(target=hdfs.restart_stopped).start()
    goes_on_by_itself(platform)


def test_hdfs_in_safe_mode_is_waited_for(platform: Platform, hdfs: Running, tmp_path: Path) -> None:
    """Nothing is written, nothing is lost, and when it leaves safe mode the queue goes on."""
    ran(platform, tmp_path)
    dfsadmin(hdfs, "-safemode", "enter")
    try:
        assert platform.persister.drain().persisted == 0
        waits_for(platform, "safe mode")
    finally:
        threading.Thread(target=dfsadmin, args=(hdfs, "-safemode", "leave")).start()
    goes_on_by_itself(platform)


def test_an_hdfs_that_does_not_answer_is_waited_for(
    platform: Platform, hdfs: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A NameNode that hangs is abandoned after a time-out, retried, and reached when it answers again."""
    ran(platform, tmp_path)
    monkeypatch.setattr(hdfs_filesystem, "_ASK_TIMEOUT", 1)
    with hdfs.cut_off("namenode"):
        assert platform.persister.drain().persisted == 0
        waits_for(platform, "no answer in 1 s")
    monkeypatch.undo()
    end_pauses(platform)
    goes_on_by_itself(platform)


def test_what_is_synchronous_is_not_committed_while_hdfs_is_away(
    platform: Platform, hdfs: Running, tmp_path: Path, runner: LinesRunner
) -> None:
    """A load that cannot be recomputed waits for its copy; readers see it once it is there."""
    landing = land(tmp_path)
    hdfs.kill("namenode")
    threading.Thread(target=hdfs.restart_stopped).start()
    datasets = run_workflow(platform, landing, strategy=Strategy.ASYNC_AND_SYNC)
    assert datasets["etl/load"].persisted and datasets["etl/load"].committed_at is not None
    assert datasets["etl/load"].digest == digest_of(landing.read_text().splitlines())
    goes_on_by_itself(platform)
