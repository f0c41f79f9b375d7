"""The stream jobs in the picture of the lineage: their health, state and topics."""

from __future__ import annotations

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser

from springline.airflow.api.streams import JobHandle, readable_handles
from springline.airflow.dags.ids import dag_of
from springline.airflow.lineage.overview import StreamNode
from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.job import make_stages


def stream_nodes(user: BaseUser, dag_id: str) -> list[StreamNode]:
    """Return a node for each job that a user may read, of one DAG if `dag_id` is not empty.

    If the declarations cannot be read there are none: the page of the streams says why.
    """
    try:
        handles = readable_handles(user)
        return [_node_of(each) for each in handles if not dag_id or dag_of(each.job.name) == dag_id]
    except StreamError:
        return []


def _node_of(handle: JobHandle) -> StreamNode:
    status, stages = handle.read_status(), make_stages(handle.job, handle.settings)
    lags = [stage["lag"] for stage in status.stages.values() if stage.get("lag") is not None]
    return StreamNode(
        key=f"stream:{status.job}",
        label=status.job,
        dag_id=dag_of(status.job),
        health=status.health.value,
        health_reason=status.health_reason,
        lag=max(lags, default=None),
        state_bytes=sum(stage.get("state_bytes", 0) for stage in status.stages.values()),
        reads=sorted({stage.topic for stage in stages if not stage.reads_own_job}),
        results=sorted({stage.results for stage in stages if stage.results}),
    )
