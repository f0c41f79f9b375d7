-- Beside the catalog's database, which the image makes: the one of Airflow.
CREATE DATABASE airflow;
