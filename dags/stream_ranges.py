"""One DAG for each job of streams.toml that has queries: its runs answer them anew over a range of the stream."""

from springline.airflow import stream_range_dags

dags = stream_range_dags()
