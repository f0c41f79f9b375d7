"""Versions of a unit's state on disk: written once, shared between rounds, never taken for something else."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.errors import CorruptStateError, MissingStateError, NondeterminismError
from springline.spark_jobs.streaming.runtime.state_store import StateSnapshot, StateStore
from springline.spark_jobs.streaming.runtime.step import State


def batch(*values: int) -> pa.RecordBatch:
    """A run of whole numbers."""
    return pa.record_batch({"n": pa.array(values, pa.int64())})


@pytest.fixture
def versions(tmp_path: Path) -> StateStore:
    """An empty folder of versions."""
    return StateStore(tmp_path / "unit")


def saved_rounds(versions: StateStore, rounds: int) -> StateSnapshot:
    """A version after some rounds; each adds a run of one number, and keeps those before."""
    version = versions.load(1, 0)
    for number in range(1, rounds + 1):
        runs = (*version.state.runs.get("rows", ()), batch(number))
        version = versions.save(version, State({"seen": number}, {"rows": runs}), (1, number))
    return version


def test_a_run_that_is_kept_is_not_written_again(versions: StateStore) -> None:
    """Neither when it was just made, nor when it was loaded."""
    saved_rounds(versions, 2)
    loaded = versions.load(1, 2)
    after = versions.save(loaded, State({}, {"rows": (*loaded.state.runs["rows"], batch(9))}), (1, 3))
    assert after.runs["rows"][:2] == loaded.runs["rows"]
    assert len(list((versions.folder / "runs").iterdir())) == 3


def test_the_same_round_run_twice_is_one_version(versions: StateStore) -> None:
    """A retry or a zombie writes the same bytes under the same names."""
    first = saved_rounds(versions, 2)
    before = {path: path.read_bytes() for path in versions.folder.rglob("*.*")}
    assert saved_rounds(versions, 2).runs == first.runs
    assert {path: path.read_bytes() for path in versions.folder.rglob("*.*")} == before


def test_a_round_that_comes_out_otherwise_is_an_error_and_the_first_stands(versions: StateStore) -> None:
    """Its step read a clock, or at the order of a set."""
    saved_rounds(versions, 1)
    with pytest.raises(NondeterminismError, match=r"1\.json: a re-run of round 1 on the same messages"):
        versions.save(versions.load(1, 0), State({"seen": "later"}), (1, 1))
    assert versions.load(1, 1).state.scalars == {"seen": 1}


def test_a_version_that_is_not_there_is_never_an_empty_state(versions: StateStore) -> None:
    """Manifest or run: the error names the file."""
    with pytest.raises(MissingStateError, match=r"7\.json"):
        versions.load(1, 7)
    saved = saved_rounds(versions, 1)
    (file,) = saved.files
    (versions.folder / "runs" / file).unlink()
    with pytest.raises(MissingStateError, match=file):
        versions.load(1, 1)


@pytest.mark.parametrize("keep_length", [True, False])
def test_a_damaged_file_is_named(versions: StateStore, keep_length: bool) -> None:
    """A run that was cut, one that holds something else, a manifest that is none."""
    saved = saved_rounds(versions, 1)
    (file,) = saved.files
    path = versions.folder / "runs" / file
    path.write_bytes(b"x" * (path.stat().st_size if keep_length else 10))
    with pytest.raises(CorruptStateError, match=file):
        versions.load(1, 1)
    (versions.folder / "1" / "1.json").write_bytes(b'{"runs": ')
    with pytest.raises(CorruptStateError, match=r"1\.json: the manifest of .* cannot be read"):
        versions.load(1, 1)


def test_a_state_of_another_version_of_springline_is_refused(versions: StateStore) -> None:
    """Its steps may have other scalars: what they do not find would be taken for empty."""
    saved_rounds(versions, 1)
    manifest = versions.folder / "1" / "1.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"form":2', b'"form":1'))
    with pytest.raises(CorruptStateError, match=r"1\.json: the manifest of .* has format 1.*reset the job"):
        versions.load(1, 1)


def test_old_versions_go_and_what_newer_ones_name_stays(versions: StateStore) -> None:
    """Runs are shared; one that is kept by name stays whole, and one that is being written is left alone."""
    version = saved_rounds(versions, 4)
    version = versions.save(version, State({}, {"rows": (batch(1, 2, 3, 4),)}), (1, 5))
    (versions.folder / "runs" / "6-rows-half.arrow").write_bytes(b"")
    assert versions.prune({(1, 2)}, before=(1, 5)) == 3
    assert versions.rounds(1) == (2, 5)
    assert [run.to_pydict()["n"] for run in versions.load(1, 2).state.runs["rows"]] == [[1], [2]]
    version_numbers = {path.name.partition("-")[0] for path in (versions.folder / "runs").iterdir()}
    assert version_numbers == {"1", "2", "5", "6"}


def test_a_new_incarnation_has_rounds_of_its_own(versions: StateStore) -> None:
    """After a rewind the same round may come out otherwise; the earlier history stays until it is pruned."""
    saved_rounds(versions, 3)
    loaded = versions.load(1, 2)
    saved = versions.save(loaded, State({"seen": "anew"}, loaded.state.runs), (2, 3))
    assert versions.load(2, 3).state.scalars == {"seen": "anew"} and saved.files == loaded.files
    assert versions.load(1, 3).state.scalars == {"seen": 3}
    assert versions.newest() == (2, 3)


def test_a_version_is_whole_with_all_its_runs_and_not_otherwise(versions: StateStore) -> None:
    """A manifest alone is no state; the beginning is there without a file, and remembers nothing."""
    assert versions.load(4, 0).state == State() and not versions.folder.exists()
    assert versions.is_complete(1, 0) and not versions.is_complete(1, 1) and versions.newest() is None
    saved = saved_rounds(versions, 2)
    assert versions.is_complete(1, 2) and versions.notes(1, 2) == {}
    (versions.folder / "runs" / max(saved.files)).unlink()
    assert not versions.is_complete(1, 2) and versions.notes(1, 3) is None


def test_a_large_run_that_is_returned_before_the_stored_one_was_seen_is_not_written_again(versions: StateStore) -> None:
    """The next step runs while the state before is written; from then on it has the mapped one."""
    large = batch(*range(1 << 17))
    first = versions.save(versions.load(1, 0), State({}, {"rows": (large,)}), (1, 1))
    assert first.state.runs["rows"][0] is not large
    second = versions.save(first, State({}, {"rows": (large, batch(7))}), (1, 2))
    assert second.runs["rows"][0] == first.runs["rows"][0]
    assert second.stored(State({"n": 1}, {"rows": (large,)})).runs["rows"][0] is first.state.runs["rows"][0]
    third = versions.save(second, State({}, {"rows": (large,)}), (1, 3))
    assert third.runs["rows"] == first.runs["rows"]


def test_versions_of_which_a_run_is_missing_are_dropped_down_to_one_that_is_whole(versions: StateStore) -> None:
    """They would be taken for versions to continue after."""
    saved = saved_rounds(versions, 4)
    (versions.folder / "runs" / saved.runs["rows"][2].file).unlink()
    assert versions.drop_incomplete() == (1, 2)
    assert versions.rounds(1) == (1, 2)
    assert versions.load(1, 2).state.scalars == {"seen": 2}
    (versions.folder / "runs" / saved.runs["rows"][0].file).unlink()
    assert versions.drop_incomplete() is None
