"""Airflow's REST API: the calls that list DAGs, start runs and watch them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from urllib.parse import quote

import httpx

from springline.services.errors import ServiceError
from springline.services.log_files import one_line

_TRIES = 5
_CONNECT_SECONDS = 10.0
_PAGE = 100  # things that Airflow lists at once
_OVER = (404, 409)  # of a backfill: it was rolled back, it has ended


class AirflowApiError(ServiceError):
    """Airflow answered with an error, whose HTTP status is known, or not at all."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class TaskState:
    """How far one task of a DAG run is."""

    run_id: str
    day: str  # of the logical date; empty for a run that has none
    task_id: str
    state: str  # empty: not scheduled yet
    attempt: int


class AirflowApi:
    """A session of one user, who gives a password, or a token that Airflow or something before it has issued."""

    def __init__(
        self,
        address: str,
        user: str,
        password: str,
        *,
        token: str = "",
        pause: Callable[[float], None] = time.sleep,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        # Longer than Airflow itself waits for its SQLite, which answers then.
        timeout = httpx.Timeout(120, connect=_CONNECT_SECONDS)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = httpx.Client(base_url=address, timeout=timeout, transport=transport, headers=headers)
        self._login = {"username": user, "password": password}
        self._pause = pause

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def await_dags(self, dag_ids: tuple[str, ...], patience: float = 600) -> None:
        """Wait until the DAGs have been read; raises `AirflowApiError` with the import errors if there are any."""
        until = time.monotonic() + patience
        while missing := [dag_id for dag_id in dag_ids if not self._found(f"/api/v2/dags/{dag_id}")]:
            if errors := self._call("GET", "/api/v2/importErrors")["import_errors"]:
                told = "\n".join(f"    {error['filename']}: {_last_line(error['stack_trace'])}" for error in errors)
                raise AirflowApiError(
                    f"Airflow cannot import these DAG files:\n{told}\n"
                    "The whole: springline server exec airflow airflow dags list-import-errors"
                )
            if time.monotonic() > until:
                raise AirflowApiError(f"Airflow has not read the DAGs {', '.join(missing)} after {patience:.0f} s")
            self._pause(0.5)

    def pause(self, dag_id: str, paused: bool) -> None:
        """Pause or unpause a DAG."""
        self._call("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": paused})

    def resize_pool(self, name: str, slots: int) -> None:
        """Give a pool so many slots."""
        params = {"update_mask": "slots"}
        self._call("PATCH", f"/api/v2/pools/{name}", params=params, json={"slots": slots})

    def dags(self) -> list[dict[str, Any]]:
        """All DAGs that the user may see, as Airflow describes them."""
        found: list[dict[str, Any]] = []
        while True:
            page = self._call(
                "GET", "/api/v2/dags", params={"limit": _PAGE, "offset": len(found), "order_by": "dag_id"}
            )
            found += page["dags"]
            if not page["dags"] or len(found) >= page["total_entries"]:
                return found

    def dag(self, dag_id: str) -> dict[str, Any]:
        """A DAG, as Airflow describes it."""
        return dict(self._call("GET", f"/api/v2/dags/{quote(dag_id, safe='')}"))

    def tasks_of(self, dag_id: str) -> Sequence[dict[str, Any]]:
        """The tasks that a DAG declares, as Airflow describes them."""
        return list(self._call("GET", f"/api/v2/dags/{quote(dag_id, safe='')}/tasks")["tasks"])

    def newest_runs(self, dag_id: str, most: int) -> list[dict[str, Any]]:
        """The newest DAG runs, the newest first, as Airflow describes them."""
        params = {"limit": most, "order_by": "-run_after"}
        return list(self._call("GET", f"/api/v2/dags/{quote(dag_id, safe='')}/dagRuns", params=params)["dag_runs"])

    def trigger(self, dag_id: str, conf: Mapping[str, Any], day: date | None = None) -> str:
        """Start a DAG run, of this day or one that has no logical date; returns its id."""
        body = {"logical_date": f"{day}T00:00:00Z" if day else None, "conf": dict(conf)}
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
    ) -> int:
        """Run every day from `first` to `last`; returns the backfill's id.

        `reprocess` says which of the days that ran before run again: `none`, `failed`, or `completed`, which is all.
        Airflow makes one in several steps; where its database was locked in the midst of them, the half is
        cancelled and made again.
        """
        body = {
            "dag_id": dag_id,
            "from_date": f"{first}T00:00:00Z",
            "to_date": f"{last}T00:00:00Z",
            "max_active_runs": runs_at_once,
            "run_backwards": False,
            "dag_run_conf": dict(conf),
            "reprocess_behavior": reprocess,
        }
        for _ in range(_TRIES):
            answer = self._answer("POST", "/api/v2/backfills", json=body)
            if not _is_locked(answer):
                break
            self._pause(1.0)
            self.end_backfills(dag_id)
        return int(_checked(answer)["id"])

    def end_backfills(self, dag_id: str) -> None:
        """Cancel the backfills of a DAG that have not ended; one that ends or is taken back meanwhile is no error."""
        for backfill in self._running_backfills(dag_id):
            answer = self._patiently("PUT", f"/api/v2/backfills/{backfill}/cancel")
            if answer.status_code not in _OVER:
                _checked(answer)

    def await_backfills(self, dag_id: str, patience: float = 300) -> None:
        """Wait until Airflow counts no backfill of a DAG as one that runs: it refuses another as long as it does.

        The scheduler looks for backfills that have ended every half a minute. Raises `AirflowApiError` where one still
        runs after `patience` seconds.
        """
        until = time.monotonic() + patience
        while running := self._running_backfills(dag_id):
            if time.monotonic() > until:
                raise AirflowApiError(f"backfill {running[0]} of {dag_id} has not ended after {patience:.0f} s")
            self._pause(1.0)

    def runs(self, dag_id: str, first: date, last: date) -> dict[str, str]:
        """By run id, the state of the DAG runs of these days."""
        params = {"logical_date_gte": f"{first}T00:00:00Z", "logical_date_lte": f"{last}T00:00:00Z"}
        found = self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns", params=params)["dag_runs"]
        return {run["dag_run_id"]: run["state"] for run in found}

    def living(self, dag_id: str) -> dict[str, str]:
        """By run id, the state of the DAG runs that have not ended: queued or running."""
        found = self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns", params={"state": ["queued", "running"]})
        return {run["dag_run_id"]: run["state"] for run in found["dag_runs"]}

    def run_state(self, dag_id: str, run_id: str) -> str:
        """The state of one DAG run."""
        return str(self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def tasks(self, dag_id: str, run_id: str) -> list[TaskState]:
        """How far each task of a DAG run is."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances"
        return [
            TaskState(
                run_id, (task["logical_date"] or "")[:10], task["task_id"], task["state"] or "", task["try_number"]
            )
            for task in self._call("GET", path)["task_instances"]
        ]

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """What a task left."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        return self._call("GET", path, params={"deserialize": "false", "stringify": "false"})["value"]

    def _running_backfills(self, dag_id: str) -> list[int]:
        listed = self._call("GET", "/api/v2/backfills", params={"dag_id": dag_id})["backfills"]
        return [backfill["id"] for backfill in listed if backfill["completed_at"] is None]

    def _found(self, path: str) -> bool:
        return self._answer("GET", path).status_code == 200

    def _call(self, method: str, path: str, **more: Any) -> Any:
        return _checked(self._patiently(method, path, **more))

    def _patiently(self, method: str, path: str, **more: Any) -> httpx.Response:
        for _ in range(_TRIES):
            answer = self._answer(method, path, **more)
            if not _is_locked(answer):
                break
            self._pause(1.0)
        return answer

    def _answer(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            answer = self._client.request(method, path, **more)
            if answer.status_code == 401 and self._login["password"]:  # no token yet, or one that ran out
                token = self._client.post("/auth/token", json=self._login)
                if token.is_error:
                    raise AirflowApiError(
                        f"Airflow refused the login of {self._login['username']}: {one_line(token.text)}",
                        token.status_code,
                    )
                self._client.headers["Authorization"] = f"Bearer {token.json()['access_token']}"
                answer = self._client.request(method, path, **more)
        except httpx.HTTPError as error:
            raise AirflowApiError(f"{method} {path}: Airflow does not answer ({error})") from error
        return answer


def _last_line(trace: str) -> str:
    """The error of a stack trace."""
    return ([line.strip() for line in trace.splitlines() if line.strip()] or [""])[-1]


def _is_locked(answer: httpx.Response) -> bool:
    """Whether Airflow's database was locked: SQLite's is at times, and what was asked for was rolled back."""
    return answer.status_code == 503 or (answer.status_code == 500 and "Database error" in answer.text)


def _checked(answer: httpx.Response) -> Any:
    if answer.is_error:
        asked = answer.request
        raise AirflowApiError(
            f"{asked.method} {asked.url.path}: {answer.status_code}: {one_line(answer.text)}", answer.status_code
        )
    return answer.json()
