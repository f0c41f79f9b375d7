"""Recovery of one dataset as an Airflow task, at a user's request."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from springline.airflow.platform_context import platform_session
from springline.persistence.errors import InvalidPathError, IrrecoverableError, UnknownDatasetError
from springline.persistence.explain import find_dataset
from springline.persistence.model.dataset import Phase
from springline.persistence.platform import Platform

DAG_ID = "recover"

OpenPlatform = Callable[[str], AbstractContextManager[Platform]]


class RecoverOperator(BaseOperator):
    """Recovers the generation that the DAG run's parameters `path` and `generation` name.

    Each change is recorded with the user who triggered the DAG run. Errors that no retry can fix fail the task at once.
    """

    def __init__(self, *, open_platform: OpenPlatform = platform_session, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._open_platform = open_platform

    def execute(self, context: Any) -> dict[str, Any]:
        """Recover the generation, and return a report."""
        params = context["params"]
        user_name = context["dag_run"].triggering_user_name or "unknown user"
        with self._open_platform(f"recover task, requested by {user_name}") as platform:
            try:
                report = restore(platform, params["path"], params["generation"])
            except (UnknownDatasetError, InvalidPathError, IrrecoverableError) as hopeless:
                raise AirflowFailException(str(hopeless)) from hopeless
        self.log.info("%(dataset)s is in the cache: %(summary)s.", report)
        return report


def restore(platform: Platform, path: str, generation: int | None) -> dict[str, Any]:
    """Ensure that a generation is complete in the cache, whatever the catalog states, and return what was done.

    Raises `UnknownDatasetError`, and `IrrecoverableError`, naming what is irrecoverable and why.
    """
    dataset = find_dataset(platform, path, generation)
    if dataset.phase is not Phase.COMMITTED:
        raise IrrecoverableError(f"{dataset.ref} is {dataset.phase.value}, not committed")
    if dataset.in_cache:
        dataset = platform.restorer.verifier.verify(dataset, deep=True)
    recovery = platform.restorer.ensure_cached([dataset.ref])
    steps = [step.summary for step in recovery.steps]
    return {
        "dataset": str(dataset.ref),
        "steps": steps,
        "seconds": round(recovery.seconds, 3),
        "summary": "; then ".join(steps) or "it was intact",
    }
