"""Apicurio Registry: the schemas of messages, in a file, by Confluent's protocol."""

from __future__ import annotations

import json
import os
import urllib.request
from functools import partial
from pathlib import Path

from springline.services.packages.jars import Jars
from springline.services.packages.java import find_java
from springline.services.server import ANSWER_SECONDS, Process, Server
from springline.services.settings import ServiceSettings

_MAIN = "io.quarkus.runner.GeneratedMain"
_PATH = "apis/ccompat/v7"  # of Confluent's protocol


def schema_registry(settings: ServiceSettings) -> Server:
    """Describe the server as configured by `settings`."""
    folder = settings.home / "schema-registry"
    address = f"http://127.0.0.1:{settings.schema_registry_port}/{_PATH}"
    command = find_java(os.environ, settings.home).command(
        _MAIN,
        heap=settings.schema_registry_heap,
        classpath=(settings.jars_folder / "schema-registry" / "*",),  # whose manifest names the others
    )
    return Server(
        name="schema-registry",
        address=address,
        folder=folder,
        processes=(Process("server", command),),
        environment={
            "QUARKUS_HTTP_HOST": "127.0.0.1",
            "HTTP_PORT": str(settings.schema_registry_port),
            "QUARKUS_DATASOURCE_JDBC_INITIAL_SIZE": "1",
            "QUARKUS_DATASOURCE_JDBC_MIN_SIZE": "1",
            "QUARKUS_DATASOURCE_JDBC_MAX_SIZE": "8",
            # What was answered is on disk: by default, H2 writes half a second later.
            "REGISTRY_DATASOURCE_URL": f"jdbc:h2:file:{folder / 'data' / 'registry'};WRITE_DELAY=0",
            "LOG_LEVEL": "WARN",
            "REGISTRY_LOG_LEVEL": "WARN",
        },
        ports={"SPRINGLINE_SCHEMA_REGISTRY_PORT": settings.schema_registry_port},
        readiness_problem=partial(_readiness_problem, address),
        prepare=partial(_prepare, settings, folder),
    )


def _prepare(settings: ServiceSettings, folder: Path) -> None:
    Jars(settings).folder("schema-registry")
    (folder / "data").mkdir(parents=True, exist_ok=True)


def _readiness_problem(address: str) -> str:
    try:
        with urllib.request.urlopen(f"{address}/subjects", timeout=ANSWER_SECONDS) as response:
            subjects = json.load(response)
    except (OSError, ValueError):
        return "it does not answer"
    return "" if isinstance(subjects, list) else "it lists no subjects"
