"""Integration with Airflow's OpenLineage provider: its transport, and the lineage of the dataset operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from springline.persistence.model.dataset import Dataset
from springline.persistence.model.transitions import Event
from springline.persistence.monitoring.openlineage_sender import LineageSender, open_lineage_sender, open_or_log_error
from springline.persistence.settings import Settings

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage


def open_task_lineage(policy: str = "") -> LineageSender | None:
    """Return a sender of dataset events to the provider's transport; None if the provider is disabled.

    Commits are not sent: the provider's own task events name the outputs. If the provider is not installed,
    OpenLineage's own environment variables define the transport, and commits are sent.
    """
    try:
        from airflow.providers.openlineage import conf
    except ImportError:
        return open_lineage_sender(policy)
    if conf.is_disabled():
        return None

    def open_client() -> LineageSender:
        from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter  # takes half a second

        client = OpenLineageAdapter().get_or_create_openlineage_client()
        return LineageSender(client, conf.namespace(), policy, sends_commits=False)

    return open_or_log_error(open_client)


def operator_lineage(dataset: Dataset | None) -> OperatorLineage[Any, Any]:
    """Return the provider's lineage of a task that wrote this generation; None: it wrote none."""
    from airflow.providers.openlineage import conf
    from airflow.providers.openlineage.extractors import OperatorLineage

    from springline.persistence.monitoring.openlineage_events import LineageEventBuilder

    if dataset is None:
        return OperatorLineage()
    events = LineageEventBuilder(conf.namespace(), Settings().policy)
    return OperatorLineage(inputs=events.inputs(dataset), outputs=[events.output(Event.COMMITTED, dataset)])
