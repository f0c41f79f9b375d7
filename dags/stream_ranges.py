"""One DAG for each job of streams.toml that has queries: a run recomputes their results for a time range (backfill)."""

from springline.airflow import stream_range_dags

dags = stream_range_dags()
