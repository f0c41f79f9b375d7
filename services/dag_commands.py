"""The commands for DAGs of Airflow: list them, run them, show the state of their runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import date
from enum import StrEnum
from typing import Annotated, Any

import typer

from springline.persistence.commands.arguments import EXIT_CONDITION_FAILED, Json, parse_parameters
from springline.persistence.text.formatting import format_alternatives, format_count, format_seconds
from springline.persistence.text.redaction import redact_secrets
from springline.persistence.text.tables import plain_table
from springline.persistence.text.terminal import console, print_json, print_result, progress
from springline.services.airflow_api import AirflowApi, AirflowApiError
from springline.services.dag_days import local_minute
from springline.services.errors import BadRequestError, ServiceError, UnknownDagError
from springline.services.servers.airflow import USER, password
from springline.services.settings import ServiceSettings

_POLL_SECONDS = 2.0
_FORBIDDEN = 403
_UNAUTHORISED = 401
_NOT_FOUND = 404

DagId = Annotated[str, typer.Argument(metavar="DAG", help="DAG id, as shown by `dag list`")]
Parameters = Annotated[list[str], typer.Option("--param", help="Parameter of the DAG as name=value; may be repeated")]


class Reprocess(StrEnum):
    """Which days with an earlier run a backfill runs again."""

    NONE = "none"
    FAILED = "failed"
    COMPLETED = "completed"


def list_dags(as_json: Json = False) -> None:
    """List the DAGs with schedule, state and next run."""
    with _airflow_api(as_json) as api:
        dags = api.dags()
    if as_json:
        print_json([_dag_fields(dag) for dag in dags])
        return
    table = plain_table("DAG", "schedule", "state", "next run")
    for dag in dags:
        fields = _dag_fields(dag)
        state = "paused" if fields["paused"] else "import error" if dag["has_import_errors"] else "active"
        table.add_row(fields["dag"], fields["schedule"] or "", state, _format_time(fields["next_run"]))
    console().print(table if dags else "Airflow has no DAGs.")


def show(dag: DagId, as_json: Json = False) -> None:
    """Show a DAG: its schedule, its tasks, and their states in the newest run."""
    with _airflow_api(as_json) as api:
        dag_info = _get_dag(api, dag)
        tasks = api.tasks_of(dag)
        newest = next(iter(api.newest_runs(dag, 1)), None)
        states = {} if newest is None else {each.task_id: each for each in api.tasks(dag, newest["dag_run_id"])}
    rows = [
        {
            "task": task["task_id"],
            "operator": task["operator_name"],
            "downstream": task["downstream_task_ids"],
            "state": states[task["task_id"]].state if task["task_id"] in states else None,
            "attempt": states[task["task_id"]].attempt if task["task_id"] in states else None,
        }
        for task in tasks
    ]
    if as_json:
        print_json({**_dag_fields(dag_info), "newest_run": newest and _run_fields(newest), "tasks": rows})
        return
    out = console()
    paused = ", paused" if dag_info["is_paused"] else ""
    ran = f"; newest run {newest['dag_run_id']}: {newest['state']}" if newest else "; never ran"
    out.print(f"{dag}: {dag_info['timetable_summary'] or 'no schedule'}{paused}{ran}", markup=False)
    table = plain_table("task", "operator", "downstream", "state")
    for row in rows:
        table.add_row(row["task"], row["operator"], ", ".join(row["downstream"]), row["state"] or "")
    out.print(table)


def list_runs(
    dag: DagId,
    last: Annotated[int, typer.Option("-n", min=1, help="Maximum number of runs, newest first")] = 10,
    as_json: Json = False,
) -> None:
    """List the newest runs of a DAG with state, date and duration."""
    with _airflow_api(as_json) as api:
        _get_dag(api, dag)
        runs = api.newest_runs(dag, last)
        zone = api.zone(dag)
    if as_json:
        print_json([_run_fields(run) for run in runs])
        return
    table = plain_table("run", "state", "logical date", "started", "duration")
    for run in runs:
        took = format_seconds(run["duration"]) if run["duration"] is not None else ""
        logical_date = local_minute(run["logical_date"], zone) if run["logical_date"] else ""
        table.add_row(run["dag_run_id"], run["state"], logical_date, _format_time(run["start_date"]), took)
    console().print(table if runs else f"{dag} never ran.")


def trigger(
    dag: DagId,
    param: Parameters = [],  # noqa: B006  (typer reads it once)
    day: Annotated[str, typer.Option("--date", help="Day of the run, such as 2026-01-05; default: none")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the run has finished")] = False,
    timeout: Annotated[float, typer.Option(min=0, help="Maximum time to wait in seconds, with --wait")] = 3600.0,
    as_json: Json = False,
) -> None:
    """Trigger a run of a DAG.

    With --wait, exit status 1 means that the run failed, and 3 that it did not end before the timeout.
    """
    conf, logical_date = parse_parameters(param), _day(day) if day else None
    with _airflow_api(as_json, f"starting a run of {dag}") as api:
        _require_active(api, dag)
        run = api.trigger(dag, conf, logical_date)
    state = _await_run(dag, run, timeout, as_json) if wait else "queued"
    print_result(as_json, {"dag": dag, "run": run, "state": state}, f"{dag}: run {run} is {state}")
    if wait and state != "success":
        raise typer.Exit(1 if state == "failed" else EXIT_CONDITION_FAILED)


def backfill(
    dag: DagId,
    first: Annotated[str, typer.Option("--from", help="First day, such as 2026-01-05")],
    last: Annotated[str, typer.Option("--to", help="Last day; default: the first day")] = "",
    param: Parameters = [],  # noqa: B006  (typer reads it once)
    reprocess: Annotated[Reprocess, typer.Option(help="Which days with an earlier run to run again")] = Reprocess.NONE,
    max_active_runs: Annotated[
        int, typer.Option("--max-active-runs", min=1, help="Maximum number of concurrent runs")
    ] = 1,
    as_json: Json = False,
) -> None:
    """Run a DAG for each day of a range, in the DAG's time zone, which is that of its start date.

    Airflow runs one backfill of a DAG at a time.
    """
    begin, end = _day(first), _day(last or first)
    if end < begin:
        raise BadRequestError(f"--to {end} is before --from {begin}")
    conf = parse_parameters(param)
    with _airflow_api(as_json, f"starting a backfill of {dag}") as api:
        _require_active(api, dag)
        started = api.backfill(dag, begin, end, conf, max_active_runs, reprocess=reprocess.value)
    dates = [local_minute(each, started.zone) for each in started.logical_dates]
    result = {
        "dag": dag, "backfill": started.id, "from": begin.isoformat(), "to": end.isoformat(), "runs": len(dates)
    }  # fmt: skip
    if dates:
        span = " to ".join(dict.fromkeys((dates[0], dates[-1])))
        text = f"{dag}: started {format_count(len(dates), 'run')}, {span} ({started.zone}), as backfill {started.id}"
    else:
        text = f"{dag}: started no run, since none of {begin} to {end} is both over and new ({started.zone}); "
        text += "--reprocess completed runs days again"
    print_result(as_json, result, f"{text}; see `springline dag runs {dag}`")


def pause(dag: DagId, as_json: Json = False) -> None:
    """Pause a DAG: no new run starts until it is unpaused."""
    _pause(dag, True, as_json)


def unpause(dag: DagId, as_json: Json = False) -> None:
    """Unpause a DAG: its runs start by schedule or when triggered."""
    _pause(dag, False, as_json)


def _pause(dag: str, paused: bool, as_json: bool) -> None:
    with _airflow_api(as_json) as api:
        _get_dag(api, dag)
        api.pause(dag, paused)
    print_result(as_json, {"dag": dag, "paused": paused}, f"{dag}: {'paused' if paused else 'active'}")


@contextmanager
def _airflow_api(as_json: bool, what: str = "asking Airflow") -> Iterator[AirflowApi]:
    """Open a session with the Airflow that the settings name; its errors are raised with a remedy."""
    settings = ServiceSettings()
    address = (settings.airflow_url or f"http://127.0.0.1:{settings.airflow_port}").rstrip("/")
    user, secret = settings.airflow_user, settings.airflow_password.get_secret_value()
    token = settings.airflow_token.get_secret_value()
    if not settings.airflow_url and not token and not secret:
        try:
            user, secret = USER, password(settings.home)
        except (OSError, ValueError, KeyError):
            raise ServiceError(
                f"no Airflow was started in {settings.home}: run `springline up airflow` to start one, "
                "or set SPRINGLINE_AIRFLOW_URL"
            ) from None
    with progress(what, quiet=as_json), closing(AirflowApi(address, user, secret, token=token)) as api:
        try:
            yield api
        except AirflowApiError as error:
            raise AirflowApiError(_refusal(error, redact_secrets(address), user, bool(token)), error.status) from None


def _refusal(error: AirflowApiError, address: str, user: str, by_token: bool) -> str:
    credentials = "the token" if by_token else f"the user {user}"
    if error.status == _UNAUTHORISED:
        return (
            f"{address} does not accept {credentials}: set SPRINGLINE_AIRFLOW_USER and SPRINGLINE_AIRFLOW_PASSWORD, or "
            "SPRINGLINE_AIRFLOW_TOKEN"
        )
    if error.status == _FORBIDDEN:
        return f"{address}: {credentials} is not permitted to do this ({error})"
    if error.status is None:
        return f"{address}: {error}; is it running? Run `springline up airflow` to start one here"
    return f"{address}: {error}"


def _get_dag(api: AirflowApi, dag: str) -> Mapping[str, Any]:
    """Return a DAG; raises `UnknownDagError`, naming the existing ones."""
    try:
        return api.dag(dag)
    except AirflowApiError as error:
        if error.status != _NOT_FOUND:
            raise
    names = [each["dag_id"] for each in api.dags()]
    raise UnknownDagError(f"unknown DAG {dag!r}; Airflow has: {format_alternatives(dag, names)}")


def _require_active(api: AirflowApi, dag: str) -> None:
    """Raise `ServiceError` if the DAG is paused, since its run would wait for ever."""
    if _get_dag(api, dag)["is_paused"]:
        raise ServiceError(f"{dag} is paused, so a run would not start: run `springline dag unpause {dag}` first")


def _await_run(dag: str, run: str, timeout: float, as_json: bool) -> str:
    """Wait until a run has ended or the timeout has passed; returns its state."""
    until = time.monotonic() + timeout
    with _airflow_api(as_json, f"run {run} of {dag}") as api:
        while (state := api.run_state(dag, run)) in ("queued", "running") and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
    return state


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise BadRequestError(f"{text!r} is not a date: write it as 2026-01-05") from None


def _dag_fields(dag: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "dag": dag["dag_id"],
        "schedule": dag["timetable_summary"],
        "paused": dag["is_paused"],
        "has_import_errors": dag["has_import_errors"],
        "next_run": dag["next_dagrun_run_after"],
        "file": dag["relative_fileloc"],
    }


def _run_fields(run: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "run": run["dag_run_id"],
        "state": run["state"],
        "type": run["run_type"],
        "logical_date": run["logical_date"],
        "started_at": run["start_date"],
        "ended_at": run["end_date"],
        "seconds": run["duration"],
        "conf": run["conf"],
    }


def _format_time(text: str | None) -> str:
    """Format a time of Airflow's API for display, to the second."""
    return (text or "")[:19].replace("T", " ")
