"""Defines where Airflow shows the pages: in its navigation, and as tabs of a DAG, a DAG run and a task."""

from __future__ import annotations

_LINEAGE = {
    "dag": "dag_id={DAG_ID}",
    "dag_run": "dag_id={DAG_ID}&run_id={RUN_ID}",
    "task": "dag_id={DAG_ID}&task_id={TASK_ID}",
}
PAGES = {"lineage": "Lineage", "queue": "Queue", "risk": "At risk", "dataset": "Dataset", "streams": "Streams"}


def views(prefix: str) -> list[dict[str, str]]:
    """Return the external views of the plugin, whose app is mounted at `prefix`.

    Airflow silently drops the whole plugin if a destination is unknown, and a view whose route is already used. Links
    are relative to the base that Airflow's page defines.
    """
    pages = f"{prefix.strip('/')}/pages"
    external_views = [
        {
            "name": title,
            "href": f"{pages}/{page}",
            "destination": "nav",
            "category": "browse",
            "url_route": f"springline-{page}",
        }
        for page, title in PAGES.items()
    ]
    for place, query in _LINEAGE.items():
        route = f"springline-lineage-{place.replace('_', '-')}"
        external_views.append(
            {"name": "Lineage", "href": f"{pages}/lineage?{query}", "destination": place, "url_route": route}
        )
    return external_views
