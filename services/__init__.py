"""The real servers, started without containers: `python -m services up spark-connect airflow`."""
