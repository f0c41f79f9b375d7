"""Profiles: one file of settings that turns the whole platform to other servers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic_settings import SettingsError

from springline.persistence.profile import profile_file, project_folder, unknown_settings
from springline.persistence.settings import Settings
from springline.services.settings import ServiceSettings
from springline.spark_jobs.settings import JobSettings


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A profile that is chosen by its path."""
    path = tmp_path / "mine.env"
    path.write_text(
        "# one file for all\nSPRINGLINE_POLICY=paper\nSPRINGLINE_SPARK_CONNECT_PORT=15999\nSPRINGLINE_HOME=/h\n"
    )
    monkeypatch.setenv("SPRINGLINE_PROFILE", str(path))
    return path


@pytest.mark.usefixtures("profile")
def test_one_profile_serves_every_package() -> None:
    """Each reads what it knows, and leaves what is others'."""
    assert Settings().policy == "paper" and ServiceSettings().spark_connect_port == 15999
    assert {each().home for each in (Settings, ServiceSettings, JobSettings)} == {Path("/h")}


def test_a_profile_is_named_by_its_file_in_the_folder_of_profiles(tmp_path: Path) -> None:
    """`cluster` is cluster.env; a typo does not select the default, but is an error that names those that are there."""
    (tmp_path / "cluster.env").touch()
    assert profile_file("cluster", tmp_path) == tmp_path / "cluster.env"
    with pytest.raises(SettingsError, match=r"'clutser'.*clutser.env does not exist; available profiles: cluster"):
        profile_file("clutser", tmp_path)


def test_a_misspelt_setting_is_warned_of_with_the_nearest_name() -> None:
    """Whichever package reads that one; what no name is near to is named alone."""
    names = frozenset({"CACH_CAPACITY", "STREAM_MEMORIES", "AIRFLOW_PRT", "X"})
    assert unknown_settings(names) == {
        "CACH_CAPACITY": "CACHE_CAPACITY",
        "STREAM_MEMORIES": "STREAM_MEMORY",
        "AIRFLOW_PRT": "AIRFLOW_PORT",
        "X": "",
    }


def test_what_the_packages_read_is_not_warned_of() -> None:
    """The profiles that come with them, and what processes of ours are given."""
    profiles = [path.read_text() for path in (project_folder() / "profiles").glob("*.env")]
    setting_names = {name for text in profiles for name in re.findall(r"^SPRINGLINE_(\w+)=", text, re.MULTILINE)}
    assert len(setting_names) > 5
    assert unknown_settings(frozenset(setting_names | {"PROFILE", "WORKER_PYTHON"})) == {}


def test_a_misspelt_setting_is_warned_of_once_a_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In the environment and in a profile, however often settings are read."""
    path = tmp_path / "mine.env"
    path.write_text("SPRINGLINE_POLCY=paper\n")
    monkeypatch.setenv("SPRINGLINE_PROFILE", str(path))
    monkeypatch.setenv("SPRINGLINE_HOMME", "/h")
    for _ in range(2):
        Settings()
    assert [record.getMessage() for record in caplog.records] == [
        "environment: SPRINGLINE_HOMME is not a setting and has no effect; did you mean SPRINGLINE_HOME?",
        f"{path}: SPRINGLINE_POLCY is not a setting and has no effect; did you mean SPRINGLINE_POLICY?",
    ]


def test_a_profile_that_is_not_utf8_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As misuse, in one line: Python's own error is none."""
    path = tmp_path / "mine.env"
    path.write_bytes(b"SPRINGLINE_POLICY=paper  # \xe9\n")
    monkeypatch.setenv("SPRINGLINE_PROFILE", str(path))
    with pytest.raises(SettingsError, match=rf"^{path}: not UTF-8 .*: save it as UTF-8"):
        Settings()


@pytest.mark.parametrize(
    ("setting", "text", "value"),
    [
        ("cache_capacity", "8GB", 8_000_000_000),
        ("cache_capacity", "4GiB", 4 << 30),
        ("cache_capacity", "1.5 G", 1_500_000_000),
        ("cache_capacity", "100", 100),
        ("policy_weights", "-4,-2,1,0.1", (-4, -2, 1, 0.1)),
        ("policy_weights", "[-4, -2, 1, 0.1]", (-4, -2, 1, 0.1)),
    ],
)
def test_a_setting_is_read_as_a_person_writes_it(
    setting: str, text: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A size may have a unit; weights are numbers with commas between, with brackets or without."""
    monkeypatch.setenv(f"SPRINGLINE_{setting.upper()}", text)
    assert getattr(Settings(), setting) == value


@pytest.mark.parametrize("text", ["hunter2", "[1]", "{hunter2", '{"a": 1}'])
def test_what_is_no_object_of_texts_is_refused_by_the_name_of_its_setting(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was given is not repeated, since it may hold a secret."""
    monkeypatch.setenv("SPRINGLINE_SPARK_CONF", text)
    with pytest.raises(SettingsError, match=r"^SPRINGLINE_SPARK_CONF: ") as refused:
        JobSettings()
    assert text not in str(refused.value).removeprefix("SPRINGLINE_SPARK_CONF: ").replace('{"name": "value"}', "")


@pytest.mark.parametrize("text", ["inf", "-inf", "nan"])
def test_a_number_is_finite(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No arithmetic on times fails because of it, in every round."""
    monkeypatch.setenv("SPRINGLINE_SYNC_TIMEOUT", text)
    with pytest.raises(SettingsError, match=r"^SPRINGLINE_SYNC_TIMEOUT: .*finite"):
        Settings()


def test_a_keyword_that_is_no_setting_is_refused() -> None:
    """A misspelt one would leave the default in force."""
    with pytest.raises(TypeError, match="no such setting: cache_capasity"):
        Settings(cache_capasity="8GB")  # type: ignore[call-arg]
