"""Tells Airflow what Springline adds to it; registers, nothing else."""

from airflow.plugins_manager import AirflowPlugin

from springline_airflow.api.mounting import Mounted
from springline_airflow.listener import RunListener


class SpringlinePlugin(AirflowPlugin):
    """Springline's listener and its API."""

    name = "springline"
    listeners = [RunListener()]  # noqa: RUF012 - Airflow wants a list here
    fastapi_apps = Mounted()
