"""Airflow provider metadata of Springline: its Connection type, with the fields of the form."""

from __future__ import annotations

from typing import Any

STORE_TYPE = "springline_store"
_URI = "alluxio://host:19998/folder, hdfs://host:8020/folder, file:///folder, or the URI of an installed kind of store"


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description; Airflow finds it by an entry point and calls it at each start: no imports."""
    return {
        "package-name": "springline",
        "name": "Springline",
        "description": "In-memory datasets with asynchronous persistence and "
        "lineage-based recovery, and Kafka stream jobs.",
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
                        "description": "Capacity in bytes, such as 8GB; empty: from the settings",
                        "schema": {"type": ["string", "null"]},
                    },
                    "bandwidth": {
                        "label": "Bandwidth",
                        "description": "For an under-store: bandwidth in bytes/s, such as 50MB",
                        "schema": {"type": ["string", "null"]},
                    },
                    "options": {
                        "label": "Options",
                        "description": "Options of an installed kind of store, as a JSON "
                        'object, such as {"token": "…"}',
                        "schema": {"type": ["string", "null"], "format": "password"},
                    },
                },
            }
        ],
    }
