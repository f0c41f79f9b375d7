"""The folders of states: whatever names a stage's log, nothing beyond the folder of that stage is removed."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Uuid
from hypothesis import example, given
from hypothesis import strategies as st

from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.kafka.log import _topic_id
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.settings import StreamSettings

HALF = st.integers(-(1 << 63), (1 << 63) - 1)


def stage(life: str, *, job: str = "job", name: str = "reduce") -> Stage:
    """A stage whose rounds are in the topic of this id."""
    return Stage(name, "module:step", "topic", job=job, life=life)


@example(most=-1, least=-1)  # in base64, all of it are slashes
@given(most=HALF, least=HALF)
def test_the_folder_of_any_topic_id_is_below_that_of_its_stage(most: int, least: int) -> None:
    """An id whose base64 begins with a slash would be another place, joined to a path."""
    settings = StreamSettings(stream_state_dir=Path("/states"), stream_spill_dir=Path("/spill"))
    folders = settings.state_folders(stage(_topic_id(Uuid(most, least))))
    assert folders.spill is not None
    assert (folders.memory.parent, folders.spill.parent) == (Path("/states/job/reduce"), Path("/spill/job/reduce"))


@pytest.mark.parametrize("text", ["", ".", "..", "/", "/tmp", "a/b", "../a", "a\0"])
def test_a_name_that_is_no_folder_is_refused(text: str) -> None:
    """Before anything is read or removed."""
    for each in (stage(text), stage("life", job=text), stage("life", name=text)):
        with pytest.raises(StreamError, match="no name of a folder"):
            StreamSettings(stream_state_dir=Path("/states")).state_folders(each)


def test_folders_of_earlier_lives_are_removed_and_nothing_else(tmp_path: Path) -> None:
    """Neither those of other stages and jobs, nor what lies beside the states."""
    settings = StreamSettings(stream_state_dir=tmp_path / "states", stream_spill_dir=tmp_path / "spill")
    new, stale = (settings.state_folders(stage(life)) for life in ("new", "stale"))
    others = [settings.state_folders(each) for each in (stage("stale", name="map"), stage("stale", job="other"))]
    for folders in (new, stale, *others):
        assert folders.spill is not None
        folders.memory.mkdir(parents=True)
        folders.spill.mkdir(parents=True)
    (tmp_path / "states" / "note").touch()
    new.remove_other_lives()
    remaining = {
        folder for each in (new, stale, *others) for folder in (each.memory, each.spill) if folder and folder.exists()
    }
    assert remaining == {folder for each in (new, *others) for folder in (each.memory, each.spill)}
    assert (tmp_path / "states" / "note").exists()
