"""User code beside the project's: where Airflow's processes find its DAGs and its modules."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from springline.services.errors import ServiceError

DAGS_FOLDER = "AIRFLOW__CORE__DAGS_FOLDER"
BUNDLES = "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"
PYTHONPATH = "PYTHONPATH"

_LOCAL = "airflow.dag_processing.bundles.local.LocalDagBundle"
_OURS, _THEIRS = "springline", "dags-folder"


def dag_settings(environment: Mapping[str, str], project: Path) -> dict[str, str]:
    """Return the settings with which Airflow reads the DAGs of `project`, and those that `environment` names.

    The user sets `AIRFLOW__CORE__DAGS_FOLDER` to a folder, or Airflow's list of bundles. Raises `ServiceError` if that
    list is invalid.
    """
    ours: dict[str, Any] = {"name": _OURS, "classpath": _LOCAL, "kwargs": {"path": str(project)}}
    folder = _folder(environment)
    if environment.get(BUNDLES):
        theirs = [each for each in _parse_bundles(environment[BUNDLES]) if each.get("name") != _OURS]
    elif folder and folder != project:
        theirs = [{"name": _THEIRS, "classpath": _LOCAL, "kwargs": {}}]
    else:
        theirs = []
    return {DAGS_FOLDER: str(folder or project), BUNDLES: json.dumps([ours, *theirs])}


def check_dag_folder(environment: Mapping[str, str]) -> None:
    """Raise `ServiceError` if the user's DAG folder does not exist: Airflow would read nothing without an error."""
    folder = _folder(environment)
    if folder and not folder.is_dir():
        raise ServiceError(
            f"{DAGS_FOLDER}={environment[DAGS_FOLDER]}: the folder does not exist; create it, or unset it"
        )


def python_path(environment: Mapping[str, str], root: Path) -> str:
    """Return the PYTHONPATH of Airflow's processes: the folder of `springline`, then the user's folders, as absolute.

    Empty entries are left out, because Python would interpret them as the process's working folder.
    """
    theirs = [str(Path(each).absolute()) for each in environment.get(PYTHONPATH, "").split(os.pathsep) if each]
    return os.pathsep.join(dict.fromkeys([str(root), *theirs]))


def _folder(environment: Mapping[str, str]) -> Path | None:
    named = environment.get(DAGS_FOLDER, "")
    return Path(named).expanduser().resolve() if named else None


def _parse_bundles(text: str) -> list[dict[str, Any]]:
    try:
        bundles = json.loads(text)
    except ValueError as error:
        raise ServiceError(
            f"{BUNDLES} is not valid JSON ({error}): set it to a list of bundles, or unset it"
        ) from error
    if not isinstance(bundles, list) or not all(isinstance(each, dict) for each in bundles):
        raise ServiceError(f"{BUNDLES} is not a list of JSON objects: set it to a list of bundles, or unset it")
    return bundles
