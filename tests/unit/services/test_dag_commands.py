"""`springline dag`: DAGs of any Airflow by its REST API, with refusals that say what to do and no secret in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from airflow.timetables.base import TimeRestriction, Timetable
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow.timetables.trigger import CronTriggerTimetable
from pendulum import UTC, FixedTimezone, parse

from springline.services import dag_commands
from springline.services.airflow_api import AirflowApi
from tests.support.commands import invoke

SECRET = "hunter2-and-more"
DAG = {
    "dag_id": "bikes", "is_paused": False, "has_import_errors": False, "timetable_summary": "@daily",
    "next_dagrun_run_after": "2026-01-06T00:00:00Z", "relative_fileloc": "bikes.py",
}  # fmt: skip
RUN = {
    "dag_run_id": "manual__1", "state": "success", "run_type": "manual", "logical_date": None, "duration": 12.5,
    "start_date": "2026-01-05T07:00:01.5Z", "end_date": "2026-01-05T07:00:14Z", "conf": {"ds": "2026-01-05"},
}  # fmt: skip


class Airflow:
    """Stands where Airflow is: answers by path, and keeps what it was asked to do."""

    def __init__(self) -> None:
        self.dag: dict[str, Any] = dict(DAG)
        self.state = "success"
        self.zone = "UTC"
        self.timetable = CronTriggerTimetable("0 6 * * *", timezone="UTC")
        self.asked: list[tuple[str, str, Any]] = []
        self.status = 0  # of every answer; 0: as is right

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        self.asked.append((request.method, request.url.path, body))
        path = request.url.path.removeprefix("/api/v2")
        if path == "/auth/token":
            right = body == {"username": "ann", "password": SECRET}
            return httpx.Response(201, json={"access_token": "t"}) if right else httpx.Response(401, text="no")
        if request.headers.get("authorization") not in ("Bearer t", f"Bearer {SECRET}"):
            return httpx.Response(401)
        if self.status:
            return httpx.Response(self.status, json={"detail": "Forbidden"})
        if path == "/backfills/dry_run":  # which runs there are is for Airflow's own timetable to say
            bounds = [parse(body[each]) for each in ("from_date", "to_date")]
            dates, restriction = [], TimeRestriction(*bounds, catchup=True)
            last = None
            while info := self.timetable.next_dagrun_info(last_automated_data_interval=last, restriction=restriction):
                last = info.data_interval
                dates.append({"logical_date": info.logical_date.isoformat(), "partition_date": None})
            return httpx.Response(200, json={"backfills": dates, "total_entries": len(dates)})
        answers: dict[str, Any] = {
            "/dags": {"dags": [self.dag], "total_entries": 1},
            "/dags/bikes": self.dag,
            "/dags/bikes/details": {**self.dag, "timezone": self.zone},
            "/dags/bikes/tasks": {
                "tasks": [{"task_id": "load", "operator_name": "DatasetOperator", "downstream_task_ids": ["clean"]}]
            },
            "/dags/bikes/dagRuns": RUN if request.method == "POST" else {"dag_runs": [RUN], "total_entries": 1},
            "/dags/bikes/dagRuns/manual__1": {**RUN, "state": self.state},
            "/dags/bikes/dagRuns/manual__1/taskInstances": {
                "task_instances": [{"logical_date": None, "task_id": "load", "state": "success", "try_number": 1}],
                "total_entries": 1,
            },
            "/backfills": {"id": 7},
        }
        return httpx.Response(200, json=answers[path]) if path in answers else httpx.Response(404, json={"detail": "?"})


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Airflow:
    """An Airflow that the settings name, with a user."""
    for name, value in {"URL": "http://airflow.example", "USER": "ann", "PASSWORD": SECRET, "TOKEN": ""}.items():
        monkeypatch.setenv(f"SPRINGLINE_AIRFLOW_{name}", value)
    stand_in = Airflow()
    api = partial(AirflowApi, transport=httpx.MockTransport(stand_in), sleep=lambda seconds: None)
    monkeypatch.setattr(dag_commands, "AirflowApi", api)
    monkeypatch.setattr(dag_commands, "_POLL_SECONDS", 0.0)
    return stand_in


def run_command(*arguments: str) -> Any:
    """What `springline dag` prints as JSON; it ends well."""
    result = invoke("dag", *arguments, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


@pytest.mark.usefixtures("airflow")
def test_dags_runs_and_tasks_are_reported() -> None:
    """As JSON, and for a person."""
    assert run_command("list") == [
        {"dag": "bikes", "schedule": "@daily", "paused": False, "has_import_errors": False,
         "next_run": "2026-01-06T00:00:00Z", "file": "bikes.py"}
    ]  # fmt: skip
    assert [run["seconds"] for run in run_command("runs", "bikes")] == [12.5]
    dag = run_command("show", "bikes")
    assert dag["newest_run"]["run"] == "manual__1" and dag["tasks"][0]["state"] == "success"
    assert "manual__1" in invoke("dag", "runs", "bikes").stdout
    assert "2026-01-06 00:00:00" in invoke("dag", "list").stdout and "load" in invoke("dag", "show", "bikes").stdout


def test_a_run_is_started_with_parameters_and_awaited(airflow: Airflow) -> None:
    """Of a day, or of none; the exit status is the outcome."""
    assert run_command("trigger", "bikes", "--param", "ds=2026-01-05")["run"] == "manual__1"
    assert airflow.asked[-1][2] == {"logical_date": None, "conf": {"ds": "2026-01-05"}}
    run_command("trigger", "bikes", "--date", "2026-01-05")
    begin, end = "2026-01-05T00:00:00+00:00", "2026-01-06T00:00:00+00:00"
    interval = {"data_interval_start": begin, "data_interval_end": end}
    assert airflow.asked[-1][2] == {"logical_date": begin, **interval, "conf": {}}
    for state, status in (("success", 0), ("failed", 1), ("running", 3)):
        airflow.state = state
        assert invoke("dag", "trigger", "bikes", "--wait", "--timeout", "0").exit_code == status


def test_a_backfill_is_started_and_a_dag_paused(airflow: Airflow) -> None:
    """Days that ran before are left alone unless it is said."""
    assert run_command("backfill", "bikes", "--from", "2026-01-05", "--to", "2026-01-07")["backfill"] == 7
    body = airflow.asked[-1][2]
    assert body["reprocess_behavior"] == "none" and body["max_active_runs"] == 1
    assert run_command("unpause", "bikes") == {"dag": "bikes", "paused": False}
    assert airflow.asked[-1] == ("PATCH", "/api/v2/dags/bikes", {"is_paused": False})


@pytest.mark.parametrize(
    ("zone", "timetable"),
    [
        ("UTC", CronTriggerTimetable("0 6 * * *", timezone="UTC")),
        ("UTC", CronDataIntervalTimetable("@daily", UTC)),
        ("Europe/Berlin", CronDataIntervalTimetable("@daily", "Europe/Berlin")),  # its clocks go forward that night
        ("America/New_York", CronTriggerTimetable("30 23 * * *", timezone="America/New_York")),
        ('FixedTimezone(19800, name="+05:30")', CronTriggerTimetable("59 23 * * *", timezone=FixedTimezone(19800))),
        ("Asia/Beirut", CronTriggerTimetable("59 23 * * *", timezone="Asia/Beirut")),  # 23 o'clock comes twice
    ],
)
def test_a_backfill_has_each_of_its_days(airflow: Airflow, zone: str, timetable: Timetable) -> None:
    """In the zone of the DAG, at whatever hour it runs; the message has the number of runs that there are."""
    airflow.zone, airflow.timetable = zone, timetable
    days = ("2026-10-24", "2026-10-26") if zone == "Asia/Beirut" else ("2026-03-28", "2026-03-30")
    result = invoke("dag", "backfill", "bikes", "--from", days[0], "--to", days[1])
    (message,) = result.stdout.splitlines()
    assert message.startswith(f"bikes: started 3 runs, {days[0]} ") and f" to {days[1]} " in message
    assert airflow.asked[-1][1:] == ("/api/v2/backfills", airflow.asked[-2][2])


def test_a_backfill_without_a_run_says_so(airflow: Airflow) -> None:
    """And a zone that this machine does not know is named."""
    airflow.timetable = CronTriggerTimetable("0 6 1 * *", timezone="UTC")
    result = invoke("dag", "backfill", "bikes", "--from", "2026-03-02")
    assert "started no run" in result.stdout and run_command("backfill", "bikes", "--from", "2026-03-02")["runs"] == 0
    airflow.zone = "Mars/Olympus"
    assert "'Mars/Olympus', which is unknown" in str(invoke("dag", "runs", "bikes").exception)


def test_a_paused_dag_is_not_run(airflow: Airflow) -> None:
    """Its run would wait, for an unknown reason."""
    airflow.dag["is_paused"] = True
    result = invoke("dag", "trigger", "bikes")
    assert "`springline dag unpause bikes` first" in str(result.exception)
    assert not any(method == "POST" and "dagRuns" in path for method, path, _ in airflow.asked)


@pytest.mark.usefixtures("airflow")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("runs", "bikse"), "unknown DAG 'bikse'; Airflow has: bikes"),
        (("trigger", "bikes", "--param", "x"), "--param x: write it as name=value"),
        (("trigger", "bikes", "--date", "monday"), "'monday' is not a date"),
        (("backfill", "bikes", "--from", "2026-01-05", "--to", "2026-01-04"), "is before --from"),
    ],
)
def test_what_cannot_be_meant_so_is_misuse(arguments: tuple[str, ...], message: str) -> None:
    """Exit status 2."""
    error = invoke("dag", *arguments).exception
    assert message in str(error) and getattr(error, "exit_status", 0) == 2


def refused(set_up: Callable[[], None]) -> str:
    """The error of a list."""
    set_up()
    result = invoke("dag", "list")
    assert result.exit_code == 1 and SECRET not in str(result.exception) + result.output
    return str(result.exception)


def test_each_refusal_says_what_to_do_and_reveals_no_secret(
    airflow: Airflow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A wrong password, a wrong token, no right, no answer, no Airflow at all."""
    env = monkeypatch.setenv
    assert "does not accept the user eve" in refused(lambda: env("SPRINGLINE_AIRFLOW_USER", "eve"))
    env("SPRINGLINE_AIRFLOW_USER", "ann")
    airflow.status = 403
    assert "the user ann is not permitted to do this" in refused(lambda: None)
    airflow.status = 0
    env("SPRINGLINE_AIRFLOW_PASSWORD", "")
    assert "SPRINGLINE_AIRFLOW_TOKEN" in refused(lambda: env("SPRINGLINE_AIRFLOW_TOKEN", "old"))
    env("SPRINGLINE_AIRFLOW_TOKEN", SECRET)
    assert run_command("list") and not any(path == "/auth/token" for _, path, _ in airflow.asked[-1:])
    monkeypatch.setattr(dag_commands, "AirflowApi", AirflowApi)
    env("SPRINGLINE_AIRFLOW_URL", f"http://ann:{SECRET}@127.0.0.1:1")
    assert "is it running?" in refused(lambda: None)
    env("SPRINGLINE_HOME", str(tmp_path))
    for name in ("URL", "TOKEN"):
        env(f"SPRINGLINE_AIRFLOW_{name}", "")
    assert "run `springline up airflow` to start one" in refused(lambda: None)
