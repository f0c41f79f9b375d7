"""The DAG that brings one dataset back when a person asks for it."""

from springline.airflow import recover_dag

dag = recover_dag()
