"""Airflow's provider for OpenLineage: where it sends, and what it asks of the operator that makes datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from springline.persistence.model.dataset import Dataset
from springline.persistence.model.transitions import Event
from springline.persistence.monitoring.openlineage_sender import Lineage, open_lineage, opened_or_none
from springline.persistence.settings import Settings

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage


def open_task_lineage(policy: str = "") -> Lineage | None:
    """Sends what happens to generations to where the provider sends; None where it sends nothing.

    Commits are not told: the provider's events of the task name what it made. Where the provider is not installed,
    OpenLineage's own variables say where to, and commits are told.
    """
    try:
        from airflow.providers.openlineage import conf
    except ImportError:
        return open_lineage(policy)
    if conf.is_disabled():
        return None

    def open_client() -> Lineage:
        from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter  # half a second

        client = OpenLineageAdapter().get_or_create_openlineage_client()
        return Lineage(client, conf.namespace(), policy, commits=False)

    return opened_or_none(open_client)


def operator_lineage(dataset: Dataset | None) -> OperatorLineage[Any, Any]:
    """What the provider is told of a task that made this generation; None: it made none."""
    from airflow.providers.openlineage import conf
    from airflow.providers.openlineage.extractors import OperatorLineage

    from springline.persistence.monitoring.openlineage_events import Events

    if dataset is None:
        return OperatorLineage()
    events = Events(conf.namespace(), Settings().policy)
    return OperatorLineage(inputs=events.inputs(dataset), outputs=[events.output(Event.COMMITTED, dataset)])
