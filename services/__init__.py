"""Starts real servers without containers: `springline up spark-connect airflow`.

Private, like all subpackages; only its commands are public.
"""
