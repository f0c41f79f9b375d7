"""The operations of docs/tutorial.md and their DAG of docs/howto.md, in a folder of their own, as the pages say."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from string import Template

from docs.console import files_in
from springline.persistence.profile import project_folder
from springline.spark_jobs.landing import LandingFile, write_manifest

_DAG, _OPERATIONS, _SALES = "dags/coffee_daily.py", "coffee.py", "landing/2026-03-02/sales.csv"
_EXEC = "springline server exec airflow "


@dataclass(frozen=True)
class CoffeeBar:
    """What a reader has done: `environment` is what was exported, `commands` is what is left to run for Airflow."""

    environment: dict[str, str]
    commands: tuple[tuple[str, ...], ...]
    sales: str

    def land(self, day: date, landing: Path) -> None:
        """Put the landing file of a day in its place, with its manifest."""
        file = landing / str(day) / "sales.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.sales)
        write_manifest(LandingFile.at(str(file)))


def coffee_bar(folder: Path) -> CoffeeBar:
    """The files as they are shown, and the commands of the section with the DAG, read for `folder`."""
    howto = (project_folder() / "docs" / "howto.md").read_text()
    shown = {**files_in((project_folder() / "docs" / "tutorial.md").read_text()), **files_in(howto)}
    for name in (_DAG, _OPERATIONS):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(shown[name])
    section = howto.partition(f"```python {_DAG}")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    lines = block.splitlines()
    (exported,) = [line.removeprefix("export ") for line in lines if line.startswith("export ")]
    variables = {"PWD": str(folder), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    pairs = (Template(each).substitute(variables).partition("=") for each in shlex.split(exported))
    commands = tuple(tuple(shlex.split(line.removeprefix(_EXEC))) for line in lines if line.startswith(_EXEC))
    assert commands and "springline up spark-connect airflow" in lines
    return CoffeeBar({name: value for name, _, value in pairs}, commands, shown[_SALES])
