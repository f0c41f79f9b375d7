"""One DAG for each job of streams.toml: its run lasts as long as the stream, and ending the run stops the stream."""

from springline.airflow import stream_dags

dags = stream_dags()
