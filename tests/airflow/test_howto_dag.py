"""The DAG that docs/howto.md shows, over the operations of docs/tutorial.md, as Airflow imports it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from docs.console import files_in
from persistence.profile import checkout

DOCS = checkout() / "docs"
ASK = """
import json
from airflow.dag_processing.dagbag import DagBag
bag = DagBag("dags")
tasks = {task.task_id: sorted(task.upstream_task_ids) for dag in bag.dags.values() for task in dag.tasks}
print(json.dumps([list(bag.dags), bag.import_errors, tasks]))
"""


def test_the_dag_that_is_shown_has_the_tasks_of_the_tutorial(tmp_path: Path) -> None:
    """In a process of its own: the registry of this one has no coffee."""
    shown = {**files_in((DOCS / "tutorial.md").read_text()), **files_in((DOCS / "howto.md").read_text())}
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "coffee_daily.py").write_text(shown["coffee_daily.py"])
    (tmp_path / "coffee.py").write_text(shown["coffee.py"])
    path = f"{tmp_path}:{checkout()}:{checkout() / 'plugins'}"
    environment = {**os.environ, "PYTHONPATH": path, "AIRFLOW_HOME": str(tmp_path / "airflow")}
    done = subprocess.run(
        [sys.executable, "-c", ASK], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    told = json.loads(done.stdout.splitlines()[-1])
    assert told == [["coffee_daily"], {}, {"load": [], "takings": ["load"]}]
