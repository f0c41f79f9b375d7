"""The command line: `springline NOUN VERB`, every command imported when it is called."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer.completion import completion_init  # type: ignore[attr-defined]

from springline.completion import VARIABLE
from springline.late_commands import Branch, Late, command_line
from springline.persistence.project import VARIABLE as PROJECT
from springline.persistence.project import project_file
from springline.persistence.text.redaction import redacted
from springline.persistence.text.terminal import print
from springline.persistence.text.visible_text import visible

_DATASETS = "springline.persistence.commands"
_JOBS = "springline.spark_jobs.commands"
_STREAMS = "springline.spark_jobs.streaming.commands"
_SERVERS = "springline.services.commands"
_WHATEVER = {"ignore_unknown_options": True, "allow_interspersed_args": False}

COMMANDS: Mapping[str, Late | Branch] = {
    "init": Late("springline.project.commands:init"),
    "doctor": Late("springline.doctor.commands:doctor"),
    "dag": Branch(
        "DAGs of Airflow: of the one that is started here, or that SPRINGLINE_AIRFLOW_URL names.",
        {
            "list": Late("springline.services.dag_commands:list_dags"),
            "show": Late("springline.services.dag_commands:show"),
            "runs": Late("springline.services.dag_commands:list_runs"),
            "trigger": Late("springline.services.dag_commands:trigger"),
            "backfill": Late("springline.services.dag_commands:backfill"),
            "pause": Late("springline.services.dag_commands:pause"),
            "unpause": Late("springline.services.dag_commands:unpause"),
        },
    ),
    "dataset": Branch(
        "Datasets: where each is, why, and what can be done about it.",
        {
            "list": Late(f"{_DATASETS}.queries:list_datasets"),
            "show": Late(f"{_DATASETS}.queries:show"),
            "explain": Late(f"{_DATASETS}.queries:explain"),
            "recover": Late(f"{_DATASETS}.changes:recover"),
            "evict": Late(f"{_DATASETS}.changes:evict"),
            "pin": Late(f"{_DATASETS}.changes:pin"),
            "retire": Late(f"{_DATASETS}.changes:retire"),
            "adopt": Late(f"{_DATASETS}.changes:adopt"),
        },
    ),
    "queue": Branch(
        "What waits to be persisted.",
        {"list": Late(f"{_DATASETS}.queries:list_queue"), "persist": Late(f"{_DATASETS}.changes:persist")},
    ),
    "risk": Late(f"{_DATASETS}.queries:risk"),
    "operation": Branch(
        "Operations: what makes datasets.",
        {
            "list": Late(f"{_JOBS}.operations:list_operations"),
            "show": Late(f"{_JOBS}.operations:show"),
            "prove": Late(f"{_DATASETS}.proofs:prove"),
        },
    ),
    "run": Late(f"{_JOBS}.operations:run"),
    "landing": Branch(
        "Landing files, which operations load.",
        {"generate": Late(f"{_JOBS}.landing_files:generate"), "manifest": Late(f"{_JOBS}.landing_files:manifest")},
    ),
    "stream": Branch(
        "Stream jobs: run them, register queries while they run, read results, see what is tracked, joined, throttled.",
        {
            "list": Late(f"{_STREAMS}.status:list_jobs"),
            "run": Late(f"{_STREAMS}.run:run"),
            "start": Late(f"{_STREAMS}.run:start"),
            "stop": Late(f"{_STREAMS}.run:stop"),
            "queries": Late(f"{_STREAMS}.queries:queries"),
            "register": Late(f"{_STREAMS}.queries:register"),
            "alter": Late(f"{_STREAMS}.queries:alter"),
            "cancel": Late(f"{_STREAMS}.queries:cancel"),
            "query": Late(f"{_STREAMS}.queries:query"),
            "results": Late(f"{_STREAMS}.results:results"),
            "sql": Late(f"{_STREAMS}.results:sql"),
            "savepoint": Late(f"{_STREAMS}.savepoints:savepoint"),
            "savepoints": Late(f"{_STREAMS}.savepoints:savepoints"),
            "rewind": Late(f"{_STREAMS}.savepoints:rewind"),
            "reset": Late(f"{_STREAMS}.reset:reset"),
            "tracked": Late(f"{_STREAMS}.tracking:list_tracked"),
            "wait": Late(f"{_STREAMS}.tracking:wait"),
            "dead-letters": Late(f"{_STREAMS}.tracking:dead_letters"),
            "retry": Late(f"{_STREAMS}.tracking:retry"),
            "acker": Branch(
                "Ackers of a tracked job, which stand in a ring.",
                {
                    "list": Late(f"{_STREAMS}.tracking:list_ackers"),
                    "add": Late(f"{_STREAMS}.tracking:add"),
                    "remove": Late(f"{_STREAMS}.tracking:remove"),
                },
            ),
            "explain": Late(f"{_STREAMS}.join:explain"),
            "rescale": Late(f"{_STREAMS}.join:rescale"),
            "backpressure": Branch(
                "Back-pressure of a job: who throttles whom and why, and under which mode.",
                {"show": Late(f"{_STREAMS}.backpressure:show"), "set": Late(f"{_STREAMS}.backpressure:set_mode")},
            ),
        },
    ),
    "topic": Branch(
        "Topics of Kafka.",
        {"send": Late(f"{_STREAMS}.datagen:send"), "generate": Late(f"{_STREAMS}.datagen:generate")},
    ),
    "alert": Branch("Alerts.", {"list": Late(f"{_DATASETS}.alerts:list_alerts")}),
    "catalog": Branch(
        "The catalog: the database of all datasets.",
        {
            "check": Late(f"{_DATASETS}.catalog:check"),
            "backup": Late(f"{_DATASETS}.catalog:backup"),
            "rebuild": Late(f"{_DATASETS}.changes:rebuild"),
        },
    ),
    "config": Branch(
        "Settings: what each is, from where, and whether all of them can be meant so.",
        {
            "list": Late(f"{_DATASETS}.configuration:list_settings"),
            "get": Late(f"{_DATASETS}.configuration:get_setting"),
            "check": Late("springline.doctor.commands:check_config"),
        },
    ),
    "demo": Branch(
        "The demo: a workflow and streams, and a fault.",
        {
            "run": Late("springline.services.demo.commands:run_days"),
            "fault": Late("springline.services.demo.commands:run_fault"),
        },
    ),
    "up": Late(f"{_SERVERS}:up"),
    "down": Late(f"{_SERVERS}:down"),
    "ps": Late(f"{_SERVERS}:ps"),
    "logs": Late(f"{_SERVERS}:logs"),
    "stop": Late(f"{_SERVERS}:stop"),
    "server": Branch(
        "Servers of this machine, one at a time, and what they need.",
        {
            "exec": Late(f"{_SERVERS}:execute", _WHATEVER),
            "kill": Late(f"{_SERVERS}:kill"),
            "jars": Late(f"{_SERVERS}:jars"),
            "java": Late(f"{_SERVERS}:java"),
            "chromium": Late(f"{_SERVERS}:chromium"),
            "class-archive": Late(f"{_JOBS}.class_archive:class_archive"),
        },
    ),
    "completion": Late("springline.completion:completion"),
}


def every_command(
    entries: Mapping[str, Late | Branch] = COMMANDS, before: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Late]]:
    """All commands, each with its words."""
    for name, entry in entries.items():
        if isinstance(entry, Branch):
            yield from every_command(entry.commands, (*before, name))
        else:
            yield (*before, name), entry


def _print_version(asked: bool) -> None:
    if asked:
        from springline import __version__

        print(f"springline {__version__}")
        raise typer.Exit


def options(
    home: Annotated[Path | None, typer.Option(help="Folder of all that is made; as SPRINGLINE_HOME")] = None,
    profile: Annotated[str, typer.Option(help="A file of settings, by name or path; as SPRINGLINE_PROFILE")] = "",
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version")
    ] = False,
) -> None:
    """Take what holds for every command."""
    if file := project_file():
        os.environ[PROJECT] = str(file.parent)  # for what this command starts, wherever that works
    if home is not None:
        os.environ["SPRINGLINE_HOME"] = str(home.absolute())
    if profile:
        os.environ["SPRINGLINE_PROFILE"] = profile


app = command_line("Datasets at memory speed, streams beside them, and what became of each.", COMMANDS, options)


def main() -> None:
    """Run the command line. An error that was foreseen is one line; the traceback of another holds no secrets.

    Exit status: 0 done, 1 failed, 2 misused, 3 done, and what was asked about is not so: not through, lost, at risk.
    """
    if VARIABLE in os.environ:  # a shell asks, by the script that `completion` prints
        completion_init()
    try:
        app(prog_name="springline")
    except Exception as error:
        _fail(error)


def _fail(error: Exception) -> NoReturn:
    status = _exit_status(error)
    if status:
        print(f"springline: {redacted(str(error))}", file=sys.stderr)
    else:
        sys.stderr.write(visible(redacted(traceback.format_exc())))
    raise SystemExit(status or 1) from None


def _exit_status(error: Exception) -> int:
    """That of an error which was foreseen: every root of errors has one; 0 for another error."""
    return 2 if isinstance(error, ValueError) else getattr(error, "exit_status", 0)
