"""The DAG that persists what the workflows made, most valuable first."""

from springline.airflow import persister_dag

dag = persister_dag()
