"""Registers Springline's extensions in Airflow."""

from airflow.plugins_manager import AirflowPlugin

from springline.airflow.api import PREFIX
from springline.airflow.api.mount import MountedApi
from springline.airflow.listener import RunListener
from springline.airflow.pages.views import views
from springline.airflow.timetables import DailyUntil


class SpringlinePlugin(AirflowPlugin):
    """Springline's listener, its API, its pages and its schedules."""

    name = "springline"
    listeners = [RunListener()]  # noqa: RUF012 - Airflow wants a list here
    fastapi_apps = MountedApi()
    external_views = views(PREFIX)
    timetables = [DailyUntil]  # noqa: RUF012 - as above
