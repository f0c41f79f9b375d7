"""The command line `springline NOUN VERB`; each command is imported when it is called."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from errno import EPIPE
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer.completion import completion_init  # type: ignore[attr-defined]

from springline.completion import VARIABLE
from springline.late_commands import CommandGroup, LazyCommand, build_app
from springline.persistence.project import VARIABLE as PROJECT_VARIABLE
from springline.persistence.project import project_file
from springline.persistence.text.redaction import redact_secrets
from springline.persistence.text.standard_streams import OutputError, open_standard_streams
from springline.persistence.text.terminal import print
from springline.persistence.text.visible_text import escape_unprintable

_DATASETS = "springline.persistence.commands"
_JOBS = "springline.spark_jobs.commands"
_STREAMS = "springline.spark_jobs.streaming.commands"
_SERVERS = "springline.services.commands"
_PASS_THROUGH = {"ignore_unknown_options": True, "allow_interspersed_args": False}

COMMANDS: Mapping[str, LazyCommand | CommandGroup] = {
    "init": LazyCommand("springline.project.commands:init"),
    "doctor": LazyCommand("springline.doctor.commands:doctor"),
    "dag": CommandGroup(
        "Airflow DAGs, of the local Airflow or the one at SPRINGLINE_AIRFLOW_URL.",
        {
            "list": LazyCommand("springline.services.dag_commands:list_dags"),
            "show": LazyCommand("springline.services.dag_commands:show"),
            "runs": LazyCommand("springline.services.dag_commands:list_runs"),
            "trigger": LazyCommand("springline.services.dag_commands:trigger"),
            "backfill": LazyCommand("springline.services.dag_commands:backfill"),
            "pause": LazyCommand("springline.services.dag_commands:pause"),
            "unpause": LazyCommand("springline.services.dag_commands:unpause"),
        },
    ),
    "dataset": CommandGroup(
        "Datasets: list, explain, recover, evict, pin.",
        {
            "list": LazyCommand(f"{_DATASETS}.queries:list_datasets"),
            "show": LazyCommand(f"{_DATASETS}.queries:show"),
            "explain": LazyCommand(f"{_DATASETS}.queries:explain"),
            "recover": LazyCommand(f"{_DATASETS}.changes:recover"),
            "evict": LazyCommand(f"{_DATASETS}.changes:evict"),
            "pin": LazyCommand(f"{_DATASETS}.changes:pin"),
            "retire": LazyCommand(f"{_DATASETS}.changes:retire"),
            "adopt": LazyCommand(f"{_DATASETS}.changes:adopt"),
        },
    ),
    "queue": CommandGroup(
        "The queue of datasets to be persisted.",
        {
            "list": LazyCommand(f"{_DATASETS}.queries:list_queue"),
            "persist": LazyCommand(f"{_DATASETS}.changes:persist"),
        },
    ),
    "table": CommandGroup(
        "Tables of Delta Lake and Iceberg that datasets go into.",
        {"list": LazyCommand(f"{_DATASETS}.tables:list_tables")},
    ),
    "risk": LazyCommand(f"{_DATASETS}.queries:risk"),
    "operation": CommandGroup(
        "Operations, which produce datasets.",
        {
            "list": LazyCommand(f"{_JOBS}.operations:list_operations"),
            "show": LazyCommand(f"{_JOBS}.operations:show"),
            "prove": LazyCommand(f"{_DATASETS}.proofs:prove"),
        },
    ),
    "run": LazyCommand(f"{_JOBS}.operations:run"),
    "landing": CommandGroup(
        "Landing files, the raw input of operations.",
        {
            "generate": LazyCommand(f"{_JOBS}.landing_files:generate"),
            "manifest": LazyCommand(f"{_JOBS}.landing_files:manifest"),
        },
    ),
    "stream": CommandGroup(
        "Stream jobs: run, queries, results, savepoints, tracking, joins, back-pressure.",
        {
            "list": LazyCommand(f"{_STREAMS}.status:list_jobs"),
            "run": LazyCommand(f"{_STREAMS}.run:run"),
            "start": LazyCommand(f"{_STREAMS}.run:start"),
            "stop": LazyCommand(f"{_STREAMS}.run:stop"),
            "queries": LazyCommand(f"{_STREAMS}.queries:queries"),
            "register": LazyCommand(f"{_STREAMS}.queries:register"),
            "alter": LazyCommand(f"{_STREAMS}.queries:alter"),
            "cancel": LazyCommand(f"{_STREAMS}.queries:cancel"),
            "query": LazyCommand(f"{_STREAMS}.queries:query"),
            "results": LazyCommand(f"{_STREAMS}.results:results"),
            "sql": LazyCommand(f"{_STREAMS}.results:sql"),
            "savepoint": LazyCommand(f"{_STREAMS}.savepoints:savepoint"),
            "savepoints": LazyCommand(f"{_STREAMS}.savepoints:savepoints"),
            "rewind": LazyCommand(f"{_STREAMS}.savepoints:rewind"),
            "reset": LazyCommand(f"{_STREAMS}.reset:reset"),
            "tracked": LazyCommand(f"{_STREAMS}.tracking:list_tracked"),
            "wait": LazyCommand(f"{_STREAMS}.tracking:wait"),
            "dead-letters": LazyCommand(f"{_STREAMS}.tracking:dead_letters"),
            "retry": LazyCommand(f"{_STREAMS}.tracking:retry"),
            "acker": CommandGroup(
                "The ring of ackers of a tracked job.",
                {
                    "list": LazyCommand(f"{_STREAMS}.tracking:list_ackers"),
                    "add": LazyCommand(f"{_STREAMS}.tracking:add"),
                    "remove": LazyCommand(f"{_STREAMS}.tracking:remove"),
                },
            ),
            "explain": LazyCommand(f"{_STREAMS}.join:explain"),
            "rescale": LazyCommand(f"{_STREAMS}.join:rescale"),
            "backpressure": CommandGroup(
                "Back-pressure of a job: mode, throttled stages, reasons.",
                {
                    "show": LazyCommand(f"{_STREAMS}.backpressure:show"),
                    "set": LazyCommand(f"{_STREAMS}.backpressure:set_mode"),
                },
            ),
        },
    ),
    "topic": CommandGroup(
        "Kafka topics.",
        {"send": LazyCommand(f"{_STREAMS}.datagen:send"), "generate": LazyCommand(f"{_STREAMS}.datagen:generate")},
    ),
    "alert": CommandGroup("Alerts.", {"list": LazyCommand(f"{_DATASETS}.alerts:list_alerts")}),
    "catalog": CommandGroup(
        "The catalog: the database of all datasets.",
        {
            "check": LazyCommand(f"{_DATASETS}.catalog:check"),
            "backup": LazyCommand(f"{_DATASETS}.catalog:backup"),
            "rebuild": LazyCommand(f"{_DATASETS}.changes:rebuild"),
        },
    ),
    "config": CommandGroup(
        "Settings: values, sources, and checks.",
        {
            "list": LazyCommand(f"{_DATASETS}.configuration:list_settings"),
            "get": LazyCommand(f"{_DATASETS}.configuration:get_setting"),
            "check": LazyCommand("springline.doctor.commands:check_config"),
        },
    ),
    "demo": CommandGroup(
        "The demo: a workflow, streams, and a fault.",
        {
            "run": LazyCommand("springline.services.demo.commands:run_days"),
            "fault": LazyCommand("springline.services.demo.commands:run_fault"),
        },
    ),
    "up": LazyCommand(f"{_SERVERS}:up"),
    "down": LazyCommand(f"{_SERVERS}:down"),
    "ps": LazyCommand(f"{_SERVERS}:ps"),
    "logs": LazyCommand(f"{_SERVERS}:logs"),
    "stop": LazyCommand(f"{_SERVERS}:stop"),
    "server": CommandGroup(
        "Single local servers, and their prerequisites.",
        {
            "exec": LazyCommand(f"{_SERVERS}:execute", _PASS_THROUGH),
            "kill": LazyCommand(f"{_SERVERS}:kill"),
            "jars": LazyCommand(f"{_SERVERS}:jars"),
            "java": LazyCommand(f"{_SERVERS}:java"),
            "chromium": LazyCommand(f"{_SERVERS}:chromium"),
            "class-archive": LazyCommand(f"{_JOBS}.class_archive:class_archive"),
        },
    ),
    "completion": LazyCommand("springline.completion:completion"),
}


def iterate_commands(
    entries: Mapping[str, LazyCommand | CommandGroup] = COMMANDS, prefix: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], LazyCommand]]:
    """Yield all commands, each with the words that call it."""
    for name, entry in entries.items():
        if isinstance(entry, CommandGroup):
            yield from iterate_commands(entry.commands, (*prefix, name))
        else:
            yield (*prefix, name), entry


def _print_version(value: bool) -> None:
    if value:
        from springline import __version__

        print(f"springline {__version__}")
        raise typer.Exit


def options(
    home: Annotated[
        Path | None, typer.Option(help="Folder for everything that the platform creates; overrides SPRINGLINE_HOME")
    ] = None,
    profile: Annotated[str, typer.Option(help="Settings file, by name or path; overrides SPRINGLINE_PROFILE")] = "",
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version")
    ] = False,
) -> None:
    """Apply the options that are common to all commands."""
    if file := project_file():
        os.environ[PROJECT_VARIABLE] = str(file.parent)  # for child processes, whatever their working folder
    if home is not None:
        os.environ["SPRINGLINE_HOME"] = str(home.absolute())
    if profile:
        os.environ["SPRINGLINE_PROFILE"] = profile


app = build_app(
    "In-memory datasets with asynchronous persistence and lineage-based recovery, and Kafka stream jobs.",
    COMMANDS,
    options,
)


def main() -> None:
    """Run the command line. Expected errors are printed in one line; tracebacks of others are printed without secrets.

    Exit status: 0 success, 1 failure, 2 usage error, 3 success, but the checked condition does not hold (not completed,
    lost, at risk).
    """
    open_standard_streams()
    if VARIABLE in os.environ:  # called by a shell, from the script that `completion` prints
        completion_init()
    try:
        try:
            app(prog_name="springline")
        except SystemExit:
            sys.stdout.flush()  # now, since nobody could handle its error when the interpreter ends
            raise
    except Exception as error:
        if isinstance(error, OutputError) and error.errno == EPIPE:  # its reader has read enough
            raise SystemExit(1) from None
        _exit_with_error(error)


def _exit_with_error(error: Exception) -> NoReturn:
    status = _exit_status(error)
    if status:
        print(f"springline: {redact_secrets(str(error))}", file=sys.stderr)
    else:
        sys.stderr.write(escape_unprintable(redact_secrets(traceback.format_exc())))
    raise SystemExit(status or 1) from None


def _exit_status(error: Exception) -> int:
    """Return the exit status of an expected error (every root class of errors has one), or 0 for any other error."""
    if type(error).__module__.startswith("pydantic_settings"):  # not imported by every command
        return 2
    return getattr(error, "exit_status", 0)
