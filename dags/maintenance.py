"""The DAG that keeps catalog and stores true to each other."""

from springline.airflow import maintenance_dag

dag = maintenance_dag()
