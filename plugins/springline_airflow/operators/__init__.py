"""Airflow operators: datasets, streams, the persister, recovery, maintenance."""
