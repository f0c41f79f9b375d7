"""The real servers, started without containers: `springline up spark-connect airflow`."""
