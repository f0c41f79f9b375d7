"""Airflow provider metadata of Springline: its Connection type, with the fields of the form."""

from __future__ import annotations

from typing import Any

STORE_TYPE = "springline_store"
_URI = "alluxio://host:19998/folder, hdfs://host:8020/folder, file:///folder, or that of an installed kind of store"


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description; Airflow finds it by an entry point and calls it at each start: no imports."""
    return {
        "package-name": "springline",
        "name": "Springline",
        "description": "Datasets at memory speed, persisted behind the job's back, and streams beside them.",
        "integrations": [{"integration-name": "Springline", "external-doc-url": "", "tags": ["software"]}],
        "hooks": [{"integration-name": "Springline", "python-modules": ["springline.airflow.hooks"]}],
        "connection-types": [
            {
                "connection-type": STORE_TYPE,
                "hook-class-name": "springline.airflow.hooks.StoreHook",
                "hook-name": "Springline store",
                "ui-field-behaviour": {
                    "hidden-fields": ["login", "password", "port", "schema", "extra"],
                    "relabeling": {"host": "URI"},
                    "placeholders": {"host": _URI},
                },
                "conn-fields": {
                    "capacity": {
                        "label": "Capacity",
                        "description": "Bytes that it may hold, such as 8GB; empty: as the settings say",
                        "schema": {"type": ["string", "null"]},
                    },
                    "bandwidth": {
                        "label": "Bandwidth",
                        "description": "Of an under-store: bytes a second of the link to it, such as 50MB",
                        "schema": {"type": ["string", "null"]},
                    },
                    "options": {
                        "label": "Options",
                        "description": 'Of an installed kind of store, as a JSON object, such as {"token": "…"}',
                        "schema": {"type": ["string", "null"], "format": "password"},
                    },
                },
            }
        ],
    }
