"""A user's own DAGs and modules are found beside the project's, by Airflow's and Python's own variables."""

from __future__ import annotations

import json

import pytest

from springline.persistence.profile import project_folder
from springline.services.errors import ServiceError
from springline.services.registry import make_servers
from springline.services.settings import ServiceSettings
from springline.services.user_code import BUNDLES, DAGS_FOLDER, dag_settings


@pytest.fixture
def airflow(tmp_path, monkeypatch):
    """Gives Airflow's environment as it is under these variables of the user."""
    for name in (BUNDLES, DAGS_FOLDER, "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)

    def environment(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        (server,) = make_servers(["airflow"], ServiceSettings(home=tmp_path))
        return server.environment

    return environment


def bundles(environment):
    """By the bundle's name, its arguments."""
    return {each["name"]: each["kwargs"] for each in json.loads(environment[BUNDLES])}


def test_a_user_s_modules_are_on_the_path_of_airflow_s_processes(airflow, tmp_path, monkeypatch):
    """After the project's, each once and absolute; what is empty would mean the folder that a process runs in."""
    monkeypatch.chdir(tmp_path)
    path = airflow(PYTHONPATH=f":mine::{tmp_path}/mine:/elsewhere:")["PYTHONPATH"].split(":")
    assert path == [f"{project_folder()}/src", f"{tmp_path}/mine", "/elsewhere"]


def test_bundles_of_the_user_s_are_read_beside_the_project_s(airflow):
    """So are those that Airflow's own list names."""
    bundle = {"name": "git", "classpath": "airflow.providers.git.bundles.git.GitDagBundle", "kwargs": {"subdir": "d"}}
    bundle_settings = bundles(airflow(**{BUNDLES: json.dumps([bundle])}))
    assert list(bundle_settings) == ["springline", "git"] and bundle_settings["git"] == {"subdir": "d"}


def test_a_user_s_folder_of_dags_is_read_beside_the_project_s(airflow, tmp_path):
    """Airflow's own variable names it; the project's is read once, also where it names that very folder, or none."""
    (folder,) = bundles(airflow()).values()
    assert folder["path"].endswith("/dags")
    assert bundles(airflow(**{DAGS_FOLDER: folder["path"]})) == {"springline": folder}
    environment = airflow(**{DAGS_FOLDER: str(tmp_path)})
    assert environment[DAGS_FOLDER] == str(tmp_path)
    assert bundles(environment) == {"springline": folder, "dags-folder": {}}


@pytest.mark.parametrize("listed", ["[", "{}", '["git"]'])
def test_a_list_of_bundles_that_is_none_is_refused(tmp_path, listed):
    """With the name of the variable."""
    with pytest.raises(ServiceError, match=rf"{BUNDLES} is not .*unset it"):
        dag_settings({BUNDLES: listed}, tmp_path)


def test_a_folder_of_dags_that_is_not_there_is_reported_before_airflow_starts(tmp_path, monkeypatch):
    """Airflow itself would read nothing, and go on."""
    monkeypatch.setenv(DAGS_FOLDER, str(tmp_path / "dogs"))
    (server,) = make_servers(["airflow"], ServiceSettings(home=tmp_path))
    with pytest.raises(ServiceError, match=rf"{DAGS_FOLDER}=.*/dogs: the folder does not exist; create it"):
        server.prepare()
