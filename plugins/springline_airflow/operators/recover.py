"""Bringing one dataset back as an Airflow task, for whoever asked for it by hand."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from springline.airflow.platform_context import opened
from springline.persistence.errors import InvalidPathError, IrrecoverableError, UnknownDatasetError
from springline.persistence.explain import find
from springline.persistence.model.dataset import Phase
from springline.persistence.platform import Platform

DAG_ID = "recover"

OpenPlatform = Callable[[str], AbstractContextManager[Any]]


class RecoverOperator(BaseOperator):
    """Brings the generation back that the DAG run's parameters `path` and `generation` name.

    Each change is noted as asked for by the user who triggered the DAG run. What no retry can mend fails at once.
    """

    def __init__(self, *, open_platform: OpenPlatform = opened, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._open_platform = open_platform

    def execute(self, context: Any) -> dict[str, Any]:
        """Bring it back, and tell how."""
        params = context["params"]
        who = context["dag_run"].triggering_user_name or "nobody known"
        with self._open_platform(f"recover task, asked for by {who}") as platform:
            try:
                told = bring_back(platform, params["path"], params["generation"])
            except (UnknownDatasetError, InvalidPathError, IrrecoverableError) as hopeless:
                raise AirflowFailException(str(hopeless)) from hopeless
        self.log.info("%(dataset)s is in the cache: %(words)s.", told)
        return told


def bring_back(platform: Platform, path: str, generation: int | None) -> dict[str, Any]:
    """Have a generation whole in the cache, whatever the catalog knew, and tell what was done for it.

    Raises `UnknownDatasetError`, and `IrrecoverableError`, naming what is gone for good and why.
    """
    dataset = find(platform, path, generation)
    if dataset.phase is not Phase.COMMITTED:
        raise IrrecoverableError(f"{dataset.ref} is {dataset.phase.value}, not committed")
    if dataset.in_cache:
        dataset = platform.restorer.verifier.verify(dataset, deep=True)
    done = platform.restorer.demand([dataset.ref])
    steps = [step.words for step in done.steps]
    return {
        "dataset": str(dataset.ref),
        "steps": steps,
        "seconds": round(done.seconds, 3),
        "words": "; then ".join(steps) or "it was whole",
    }
