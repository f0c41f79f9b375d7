"""The workflow of a soak: days are run again and again as backfills, and must give what they gave without a fault."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from benchmarks.cluster.soaking.cluster import SoakCluster
from springline.persistence.settings import Settings
from springline.services.airflow_api import AirflowApiError
from springline.services.demo.workflow import DAG_ID, DAYS, FILES, MAINTENANCE, PERSISTER, newest_committed
from springline.services.errors import ServiceError
from springline.spark_jobs.landing import land, landing_of
from springline.spark_jobs.settings import JobSettings

_RANDOM = ("rotate", "accepted", "quarantine")  # made with a random salt, or from what was
_POLL_SECONDS = 2.0
_PATIENCE = 3600.0  # seconds for a backfill: what still runs is not run again by hand
_FINAL = {"success", "failed"}
_T = TypeVar("_T")


class Workflow:
    """Runs the days, one backfill after another; the first one, before any fault, has the expected results."""

    def __init__(self, soak_cluster: SoakCluster) -> None:
        self._soak_cluster = soak_cluster
        self._over = threading.Event()
        self.runs = 0
        self.wrong = 0
        land(DAYS, landing_of(JobSettings(), Settings()))
        soak_cluster.api.await_dags((DAG_ID, PERSISTER, MAINTENANCE))
        for dag_id in (DAG_ID, PERSISTER, MAINTENANCE):
            soak_cluster.api.pause(dag_id, False)
        self._run()
        self._expected = self._digests()
        self._error: ServiceError | None = None
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Let the backfill under way end, and compare what stands then; raises what ended them before."""
        self._over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def await_persisted(self, patience: float = 600.0) -> int:
        """Wait until nothing wants persisting; how many datasets of the days are not persisted then."""
        until = time.monotonic() + patience
        while self._soak_cluster.platform.claims.depth() and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
        return sum(
            not each.persisted
            for day in DAYS
            for each in newest_committed(self._soak_cluster.platform, f"{FILES}{day}/")
        )

    def _go_on(self) -> None:
        try:
            while not self._over.is_set():
                self._run()
                self._compare()
        except ServiceError as error:
            self._error = error

    def _compare(self) -> None:
        self.runs += 1
        digests = self._digests()
        other = sorted(path for path, digest in self._expected.items() if digests.get(path) != digest)
        self.wrong += len(other)
        result = f"others than without a fault: {', '.join(other)}" if other else "all as without a fault"
        self._soak_cluster.diary.note(f"workflow: backfill {self.runs} has ended; {result}")

    def _digests(self) -> Mapping[str, str]:
        """By path, what the newest generation holds, in whatever order and encoding."""
        datasets = (each for day in DAYS for each in newest_committed(self._soak_cluster.platform, f"{FILES}{day}/"))
        return {each.ref.path: each.digest for each in datasets if each.ref.path.rpartition("/")[2] not in _RANDOM}

    def _run(self) -> None:
        """One backfill; failed days are run once more, as a person would."""
        api, tries = self._soak_cluster.api, 0
        while True:
            self._retry_call(lambda: api.end_backfills(DAG_ID))
            self._retry_call(lambda: api.backfill(DAG_ID, DAYS[0], DAYS[-1], {}, runs_at_once=len(DAYS)))
            states = self._await_runs()
            if set(states.values()) == {"success"}:
                return
            self._soak_cluster.diary.note(f"workflow: {states}: run again by hand", "by hand")
            tries += 1
            if tries > 5:
                raise ServiceError(f"the workflow does not come to an end: {states}")

    def _await_runs(self) -> dict[str, str]:
        until = time.monotonic() + _PATIENCE
        while True:
            states = self._retry_call(lambda: self._soak_cluster.api.runs(DAG_ID, DAYS[0], DAYS[-1]))
            if (len(states) == len(DAYS) and set(states.values()) <= _FINAL) or time.monotonic() > until:
                return states
            time.sleep(_POLL_SECONDS)

    def _retry_call(self, call: Callable[[], _T]) -> _T:
        """Ask Airflow, again while it is away; raises the last refusal after two minutes."""
        until = time.monotonic() + 120
        while True:
            try:
                return call()
            except AirflowApiError:
                if time.monotonic() > until:
                    raise
                time.sleep(_POLL_SECONDS)
