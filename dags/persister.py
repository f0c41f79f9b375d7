"""The DAG that persists the output of the workflows, most valuable first."""

from springline.airflow import persister_dag

dag = persister_dag()
