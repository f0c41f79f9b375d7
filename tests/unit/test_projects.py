"""A project: a folder with `springline.toml`, made by `springline init` and found from wherever one is in it."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from pydantic_settings import SettingsError

from springline.persistence.profile import project_folder, setting_variables
from springline.persistence.project import ProjectError, project_file
from springline.persistence.settings import Settings
from springline.project.commands import render_template
from springline.spark_jobs.settings import JobSettings
from tests.support.commands import invoke


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, in one of whose folders one is."""
    for variable in ("SPRINGLINE_HOME", "SPRINGLINE_PROFILE", "SPRINGLINE_PROJECT"):
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    (tmp_path / "springline.toml").write_text('policy = "lrc"\noperations = ["mine"]\nlanding_uri = "in"\n')
    return tmp_path


def test_the_file_is_found_upwards_and_its_folder_is_the_project_s(project: Path) -> None:
    """The home lies in it, and relative paths start there."""
    assert project_file() == project / "springline.toml" and project_folder() == project
    assert Settings().home == project / "var" and Settings().policy == "lrc"
    assert JobSettings().operations == ("mine",) and JobSettings().landing_address == str(project / "in")


def test_code_the_environment_and_a_profile_win_over_the_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this order."""
    (project / "p.env").write_text("SPRINGLINE_POLICY=edge\n")
    monkeypatch.setenv("SPRINGLINE_PROFILE", str(project / "p.env"))
    assert Settings().policy == "edge"
    monkeypatch.setenv("SPRINGLINE_POLICY", "paper")
    assert Settings().policy == "paper" and Settings(policy="fifo").policy == "fifo"


def test_the_variables_of_all_settings_give_another_process_the_same(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it runs, without the project and the profile; in the same order."""
    (project / "p.env").write_text("SPRINGLINE_POLICY=edge\nSPRINGLINE_PROVE=false\n")
    monkeypatch.setenv("SPRINGLINE_PROFILE", str(project / "p.env"))
    monkeypatch.setenv("SPRINGLINE_LEASE_SECONDS", "7")
    here = (Settings().policy, Settings().prove, Settings().lease_seconds, *_of_jobs())
    variables = setting_variables()
    assert not {"SPRINGLINE_PROFILE", "SPRINGLINE_PROJECT"} & set(variables)
    monkeypatch.delenv("SPRINGLINE_PROFILE")
    monkeypatch.chdir("/")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (Settings().policy, Settings().prove, Settings().lease_seconds, *_of_jobs()) == here
    assert here == ("edge", False, 7, ("mine",), str(project / "in"))


def _of_jobs() -> tuple[object, ...]:
    return JobSettings().operations, JobSettings().landing_address


def test_a_process_elsewhere_is_given_its_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those that a command starts are; a folder that is none is refused."""
    monkeypatch.chdir("/")
    monkeypatch.setenv("SPRINGLINE_PROJECT", str(project))
    assert project_folder() == project
    monkeypatch.setenv("SPRINGLINE_PROJECT", str(project / "a"))
    with pytest.raises(ProjectError, match=r"a/springline\.toml does not exist"):
        project_file()


def test_what_is_wrong_in_the_file_is_reported_with_its_name(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A value, a name that is no setting, a file that is no TOML."""
    file = project / "springline.toml"
    file.write_text('polcy = "lrc"\n')
    with caplog.at_level(logging.WARNING, "springline.settings"):
        Settings()
    assert f"{file}: SPRINGLINE_POLCY is not a setting" in caplog.text and "SPRINGLINE_POLICY?" in caplog.text
    file.write_text('policy = "odd"\n')
    with pytest.raises(SettingsError, match="SPRINGLINE_POLICY: policy 'odd': no installed package provides 'odd'"):
        Settings()
    file.write_text("policy = \n")
    with pytest.raises(SettingsError, match=r"springline\.toml: not valid TOML"):
        Settings()


def test_init_makes_a_project_and_says_what(tmp_path: Path) -> None:
    """Each file is that of the template, with the name in it."""
    output = json.loads(invoke("init", str(tmp_path / "bikes"), "--json").stdout)
    assert output["name"] == "bikes" and output["files"] == sorted(render_template("bikes"))
    assert {"README.md", ".gitignore", "pipeline.py", "dags/pipeline_dag.py"} <= set(output["files"])
    contents = {path: (tmp_path / "bikes" / path).read_text() for path in output["files"]}
    assert contents == render_template("bikes") and not any("{{" in text for text in contents.values())
    assert '"bikes",' in contents["dags/pipeline_dag.py"]


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    """Not even one file: then none is made, nor in the place of a file."""
    (tmp_path / "pipeline.py").write_text("mine")
    result = invoke("init", str(tmp_path), "--name", "x")
    assert "has pipeline.py already, which is not overwritten" in str(result.exception)
    assert "is a file; give a folder" in str(invoke("init", str(tmp_path / "pipeline.py"), "--name", "x").exception)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("pipeline.py", "mine")]


@pytest.mark.parametrize("name", ["Big", "1st", "a b", "a/b", "../up", "x" * 42, 'a"'])
def test_a_name_that_would_break_files_is_refused(name: str, tmp_path: Path) -> None:
    """Before anything is made."""
    assert "not a project name" in str(invoke("init", str(tmp_path / "p"), "--name", name).exception)
    assert not (tmp_path / "p").exists()
