"""The real servers, started without containers: `python -m springline.services up spark-connect airflow`."""
