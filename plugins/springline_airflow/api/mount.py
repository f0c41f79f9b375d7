"""How Airflow comes to the API: as an app that is made when the API server asks for it."""

from __future__ import annotations

import gc
from functools import cached_property
from typing import Any

from springline.airflow.api import PREFIX


class Mounted:
    """The attribute `fastapi_apps` of a plugin; every task loads the plugin, and few processes want the API.

    Airflow reads it from the plugin's class, not from an instance.
    """

    def __get__(self, plugin: object, owner: type) -> list[dict[str, Any]]:
        """What Airflow mounts, and where."""
        return [self._mounted]

    @cached_property
    def _mounted(self) -> dict[str, Any]:
        from springline.airflow.api.app import make_app  # takes seconds

        app = make_app()
        gc.collect()
        gc.freeze()  # a server keeps what it has loaded: to walk all that again and again takes 0.3 s a time
        return {"app": app, "url_prefix": PREFIX, "name": "Springline"}
