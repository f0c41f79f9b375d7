"""The DAG that recovers one dataset on request."""

from springline.airflow import recover_dag

dag = recover_dag()
