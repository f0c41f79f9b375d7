"""The DAG that keeps the catalog and the stores consistent."""

from springline.airflow import maintenance_dag

dag = maintenance_dag()
