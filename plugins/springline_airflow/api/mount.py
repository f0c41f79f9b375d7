"""Mounts the API in Airflow: the app is made when the API server first asks for it."""

from __future__ import annotations

import gc
from functools import cached_property
from typing import Any

from springline.airflow.api import PREFIX


class MountedApi:
    """Descriptor for the attribute `fastapi_apps` of a plugin: every task loads the plugin, few processes use the API.

    Airflow reads it from the plugin's class, not from an instance.
    """

    def __get__(self, plugin: object, owner: type) -> list[dict[str, Any]]:
        """Return what Airflow mounts, and where."""
        return [self._mount_entry]

    @cached_property
    def _mount_entry(self) -> dict[str, Any]:
        from springline.airflow.api.app import make_app  # takes seconds

        app = make_app()
        gc.collect()
        gc.freeze()  # a server keeps what it has loaded; to scan it in each collection takes 0.3 s
        return {"app": app, "url_prefix": PREFIX, "name": "Springline"}
