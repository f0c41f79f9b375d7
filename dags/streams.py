"""One DAG for each job of streams.toml: its run lives as long as the stream; ending the run stops the stream."""

from springline.airflow import stream_dags

dags = stream_dags()
