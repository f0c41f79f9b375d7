"""Recovery of datasets as an Airflow task, at a user's request."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from springline.airflow.platform_context import platform_session
from springline.persistence.errors import InvalidPathError, IrrecoverableError, UnknownDatasetError
from springline.persistence.explain import find_dataset
from springline.persistence.model.dataset import Phase, Ref
from springline.persistence.platform import Platform

DAG_ID = "recover"

OpenPlatform = Callable[[str], AbstractContextManager[Platform]]


class RecoverOperator(BaseOperator):
    """Recovers the generations that the DAG run's parameter `datasets` names: each as `path`, or as `path@generation`.

    Each change is recorded with the user who triggered the DAG run. What cannot be recovered does not keep the others
    from being recovered; then the task fails at once, since no retry can help.
    """

    def __init__(self, *, open_platform: OpenPlatform = platform_session, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._open_platform = open_platform

    def execute(self, context: Any) -> list[dict[str, Any]]:
        """Recover the generations, and return a report for each."""
        user_name = context["dag_run"].triggering_user_name or "unknown user"
        reports, failures = [], []
        with self._open_platform(f"recover task, requested by {user_name}") as platform:
            for name in context["params"]["datasets"]:
                try:
                    report = restore(platform, *_parse(name))
                except (UnknownDatasetError, InvalidPathError, IrrecoverableError) as hopeless:
                    failures.append(str(hopeless))
                    continue
                self.log.info("%(dataset)s is in the cache: %(summary)s.", report)
                reports.append(report)
        if failures:
            raise AirflowFailException("; ".join(failures))
        return reports


def _parse(name: str) -> tuple[str, int | None]:
    """Return the path and the generation of `path@generation`, or of `path`: None, the newest."""
    if "@" not in name:
        return name, None
    return Ref.parse(name)


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
