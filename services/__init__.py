"""The real servers, started without containers: `springline up spark-connect airflow`.

Private, as all below: its commands are public.
"""
