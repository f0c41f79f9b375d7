"""The HTTP API of the platform: a FastAPI app inside Airflow's API server, with Airflow's users and permissions."""

PREFIX = "/springline"  # prefix of all its routes, below Airflow's own
