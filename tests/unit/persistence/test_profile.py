"""Profiles: one file of settings that turns the whole platform to other servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic_settings import SettingsError

from persistence.profile import profile_file
from persistence.settings import Settings
from services.settings import ServiceSettings
from spark_jobs.settings import JobSettings


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A profile that is chosen by its path."""
    path = tmp_path / "mine.env"
    path.write_text("# one file for all\nSPRINGLINE_POLICY=paper\nSPRINGLINE_CONNECT_PORT=15999\nSPRINGLINE_HOME=/h\n")
    monkeypatch.setenv("SPRINGLINE_PROFILE", str(path))
    return path


@pytest.mark.usefixtures("profile")
def test_one_profile_serves_every_package() -> None:
    """Each reads what it knows, and leaves what is others'."""
    assert Settings().policy == "paper" and ServiceSettings().connect_port == 15999
    assert {each().home for each in (Settings, ServiceSettings, JobSettings)} == {Path("/h")}


@pytest.mark.usefixtures("profile")
def test_the_environment_wins_over_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is given in code wins over both."""
    monkeypatch.setenv("SPRINGLINE_POLICY", "lrc")
    assert Settings().policy == "lrc" and Settings(policy="edge").policy == "edge"


def test_a_profile_is_named_by_its_file_in_the_folder_of_profiles(tmp_path: Path) -> None:
    """`cluster` is cluster.env."""
    (tmp_path / "cluster.env").touch()
    assert profile_file("cluster", tmp_path) == tmp_path / "cluster.env"


def test_a_profile_that_is_not_there_is_an_error_that_names_those_that_are(tmp_path: Path) -> None:
    """Nobody runs on the default by a slip of the pen."""
    (tmp_path / "cluster.env").touch()
    with pytest.raises(SettingsError, match=r"'clutser'.*no file .*clutser.env; the profiles here: cluster"):
        profile_file("clutser", tmp_path)
