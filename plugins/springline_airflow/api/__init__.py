"""The platform over HTTP: a FastAPI app inside Airflow's API server, for its users and by its rules."""

PREFIX = "/springline"  # of all its routes, below Airflow's own
