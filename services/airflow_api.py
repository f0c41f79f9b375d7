"""A client of Airflow's REST API: lists DAGs, starts runs and monitors them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta, tzinfo
from typing import Any
from urllib.parse import quote

import httpx

from springline.services.dag_days import day_begin, day_end, local_minute, parse_zone
from springline.services.errors import ServiceError
from springline.services.log_files import one_line

_TRIES = 5
_CONNECT_SECONDS = 10.0
_PAGE = 100  # page size of lists
_ENDED_STATUSES = (404, 409)  # when a backfill is cancelled: 404 it was rolled back, 409 it has ended


class AirflowApiError(ServiceError):
    """Airflow answered with an error (`status` is the HTTP status), or did not answer (`status` is None)."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class TaskState:
    """The state of one task of a DAG run."""

    run_id: str
    day: str  # of the logical date, in the zone of the DAG; empty for a run without one
    task_id: str
    state: str  # empty: not scheduled yet
    attempt: int


@dataclass(frozen=True, slots=True)
class StartedBackfill:
    """A backfill that Airflow has created, with the logical dates of its runs."""

    id: int
    zone: tzinfo  # the DAG's
    logical_dates: tuple[str, ...]


class AirflowApi:
    """A session of one user, with a password, or with a token that Airflow or a proxy in front of it has issued."""

    def __init__(
        self,
        address: str,
        user: str,
        password: str,
        *,
        token: str = "",
        sleep: Callable[[float], None] = time.sleep,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        # Longer than Airflow itself waits for a lock of its SQLite database.
        timeout = httpx.Timeout(120, connect=_CONNECT_SECONDS)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = httpx.Client(base_url=address, timeout=timeout, transport=transport, headers=headers)
        self._login = {"username": user, "password": password}
        self._sleep = sleep
        self._zones: dict[str, tzinfo] = {}  # by DAG

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def await_dags(self, dag_ids: tuple[str, ...], patience: float = 600) -> None:
        """Wait until Airflow has parsed the DAGs; raises `AirflowApiError` on import errors, or after `patience` s."""
        until = time.monotonic() + patience
        while missing := [dag_id for dag_id in dag_ids if not self._exists(f"/api/v2/dags/{dag_id}")]:
            if errors := self._call("GET", "/api/v2/importErrors")["import_errors"]:
                error_lines = "\n".join(
                    f"    {error['filename']}: {_last_line(error['stack_trace'])}" for error in errors
                )
                raise AirflowApiError(
                    f"Airflow cannot import these DAG files:\n{error_lines}\n"
                    "Full error: springline server exec airflow airflow dags list-import-errors"
                )
            if time.monotonic() > until:
                raise AirflowApiError(f"Airflow has not parsed the DAGs {', '.join(missing)} after {patience:.0f} s")
            self._sleep(0.5)

    def pause(self, dag_id: str, paused: bool) -> None:
        """Pause or unpause a DAG."""
        self._call("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": paused})

    def resize_pool(self, name: str, slots: int) -> None:
        """Set the number of slots of a pool."""
        params = {"update_mask": "slots"}
        self._call("PATCH", f"/api/v2/pools/{name}", params=params, json={"slots": slots})

    def dags(self) -> list[dict[str, Any]]:
        """Return all DAGs that the user may see, as JSON objects of Airflow's API."""
        return self._list("/api/v2/dags", "dags", order_by="dag_id")

    def dag(self, dag_id: str) -> dict[str, Any]:
        """Return a DAG, as a JSON object of Airflow's API."""
        return dict(self._call("GET", f"/api/v2/dags/{quote(dag_id, safe='')}"))

    def zone(self, dag_id: str) -> tzinfo:
        """Return the time zone of a DAG, in which its days begin and end."""
        if dag_id not in self._zones:
            name = str(self._call("GET", f"/api/v2/dags/{quote(dag_id, safe='')}/details")["timezone"])
            try:
                self._zones[dag_id] = parse_zone(name)
            except (KeyError, ValueError) as error:
                raise AirflowApiError(
                    f"{dag_id} has the time zone {name!r}, which is unknown on this machine: install the package tzdata"
                ) from error
        return self._zones[dag_id]

    def tasks_of(self, dag_id: str) -> Sequence[dict[str, Any]]:
        """Return the tasks of a DAG, as JSON objects of Airflow's API."""
        return list(self._call("GET", f"/api/v2/dags/{quote(dag_id, safe='')}/tasks")["tasks"])

    def newest_runs(self, dag_id: str, limit: int) -> list[dict[str, Any]]:
        """Return the newest DAG runs, newest first, as JSON objects of Airflow's API."""
        params = {"limit": limit, "order_by": "-run_after"}
        return list(self._call("GET", f"/api/v2/dags/{quote(dag_id, safe='')}/dagRuns", params=params)["dag_runs"])

    def trigger(self, dag_id: str, conf: Mapping[str, Any], day: date | None = None) -> str:
        """Trigger a DAG run whose data interval is `day`, or one without a logical date; returns its id."""
        body: dict[str, Any] = {"logical_date": None, "conf": dict(conf)}
        if day:
            begin, end = (day_begin(each, self.zone(dag_id)) for each in (day, day + timedelta(days=1)))
            body |= {"logical_date": begin, "data_interval_start": begin, "data_interval_end": end}
        return str(self._call("POST", f"/api/v2/dags/{dag_id}/dagRuns", json=body)["dag_run_id"])

    def backfill(
        self,
        dag_id: str,
        first: date,
        last: date,
        conf: Mapping[str, Any],
        runs_at_once: int,
        *,
        reprocess: str = "completed",
    ) -> StartedBackfill:
        """Create a backfill of every run from the begin of `first` to the end of `last`, in the DAG's time zone.

        `reprocess` selects which days with an earlier run are run again: `none`, `failed`, or `completed` (all).
        Airflow creates a backfill in several steps; if its database was locked meanwhile, the incomplete backfill is
        cancelled and created again.
        """
        zone = self.zone(dag_id)
        body = {
            "dag_id": dag_id,
            "from_date": day_begin(first, zone),
            "to_date": day_end(last, zone),
            "max_active_runs": runs_at_once,
            "run_backwards": False,
            "dag_run_conf": dict(conf),
            "reprocess_behavior": reprocess,
        }
        planned = self._call("POST", "/api/v2/backfills/dry_run", json=body)["backfills"]
        for _ in range(_TRIES):
            response = self._request("POST", "/api/v2/backfills", json=body)
            if not _is_locked(response):
                break
            self._sleep(1.0)
            self.end_backfills(dag_id)
        dates = [run["logical_date"] or run["partition_date"] for run in planned]
        return StartedBackfill(int(_json_or_raise(response)["id"]), zone, tuple(dates))

    def end_backfills(self, dag_id: str) -> None:
        """Cancel the running backfills of a DAG; one that ends or is rolled back meanwhile is not an error."""
        for backfill in self._running_backfills(dag_id):
            response = self._request_with_retries("PUT", f"/api/v2/backfills/{backfill}/cancel")
            if response.status_code not in _ENDED_STATUSES:
                _json_or_raise(response)

    def await_backfills(self, dag_id: str, patience: float = 300) -> None:
        """Wait until no backfill of a DAG is marked as running, because Airflow rejects another one until then.

        The scheduler marks ended backfills every 30 s. Raises `AirflowApiError` if one is still running after
        `patience` seconds.
        """
        until = time.monotonic() + patience
        while running := self._running_backfills(dag_id):
            if time.monotonic() > until:
                raise AirflowApiError(f"backfill {running[0]} of {dag_id} has not finished after {patience:.0f} s")
            self._sleep(1.0)

    def runs(self, dag_id: str, first: date, last: date) -> dict[str, str]:
        """Return the state of the DAG runs of these days, by run id."""
        zone = self.zone(dag_id)
        days = {"logical_date_gte": day_begin(first, zone), "logical_date_lte": day_end(last, zone)}
        return self._run_states(dag_id, **days)

    def active_runs(self, dag_id: str) -> dict[str, str]:
        """Return the state of the DAG runs that are queued or running, by run id."""
        return self._run_states(dag_id, state=["queued", "running"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        """Return the state of one DAG run."""
        return str(self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def tasks(self, dag_id: str, run_id: str) -> list[TaskState]:
        """Return the state of each task of a DAG run."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances"
        return [
            TaskState(
                run_id,
                local_minute(task["logical_date"], self.zone(dag_id))[:10] if task["logical_date"] else "",
                task["task_id"],
                task["state"] or "",
                task["try_number"],
            )
            for task in self._list(path, "task_instances")
        ]

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """Return an XCom value of a task, by default its return value."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        return self._call("GET", path, params={"deserialize": "false", "stringify": "false"})["value"]

    def _running_backfills(self, dag_id: str) -> list[int]:
        backfills = self._list("/api/v2/backfills", "backfills", dag_id=dag_id)
        return [backfill["id"] for backfill in backfills if backfill["completed_at"] is None]

    def _run_states(self, dag_id: str, **params: Any) -> dict[str, str]:
        dag_runs = self._list(f"/api/v2/dags/{dag_id}/dagRuns", "dag_runs", **params)
        return {run["dag_run_id"]: run["state"] for run in dag_runs}

    def _list(self, path: str, key: str, **params: Any) -> list[dict[str, Any]]:
        """Return all items of a list, which Airflow sends in pages."""
        items: list[dict[str, Any]] = []
        while True:
            page = self._call("GET", path, params={"limit": _PAGE, "offset": len(items), **params})
            items += page[key]
            if not page[key] or len(items) >= page["total_entries"]:
                return items

    def _exists(self, path: str) -> bool:
        return self._request("GET", path).status_code == 200

    def _call(self, method: str, path: str, **more: Any) -> Any:
        return _json_or_raise(self._request_with_retries(method, path, **more))

    def _request_with_retries(self, method: str, path: str, **more: Any) -> httpx.Response:
        for _ in range(_TRIES):
            response = self._request(method, path, **more)
            if not _is_locked(response):
                break
            self._sleep(1.0)
        return response

    def _request(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            response = self._client.request(method, path, **more)
            if response.status_code == 401 and self._login["password"]:  # no token yet, or an expired one
                token = self._client.post("/auth/token", json=self._login)
                if token.is_error:
                    raise AirflowApiError(
                        f"Airflow refused the login of {self._login['username']}: {one_line(token.text)}",
                        token.status_code,
                    )
                self._client.headers["Authorization"] = f"Bearer {token.json()['access_token']}"
                response = self._client.request(method, path, **more)
        except httpx.HTTPError as error:
            raise AirflowApiError(f"{method} {path}: Airflow does not answer ({error})") from error
        return response


def _last_line(trace: str) -> str:
    """Return the last line of a stack trace, which names the error."""
    return ([line.strip() for line in trace.splitlines() if line.strip()] or [""])[-1]


def _is_locked(response: httpx.Response) -> bool:
    """Return whether Airflow's database was locked and the request rolled back, which happens with SQLite."""
    return response.status_code == 503 or (response.status_code == 500 and "Database error" in response.text)


def _json_or_raise(response: httpx.Response) -> Any:
    if response.is_error:
        request = response.request
        raise AirflowApiError(
            f"{request.method} {request.url.path}: {response.status_code}: {one_line(response.text)}",
            response.status_code,
        )
    return response.json()
