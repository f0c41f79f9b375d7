"""The available servers, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from springline.services.errors import UnknownServerError
from springline.services.server import Server
from springline.services.servers.airflow import airflow
from springline.services.servers.alluxio import alluxio
from springline.services.servers.hdfs import hdfs
from springline.services.servers.kafka import kafka
from springline.services.servers.postgres import postgres
from springline.services.servers.s3 import s3
from springline.services.servers.schema_registry import schema_registry
from springline.services.servers.spark import spark
from springline.services.servers.spark_connect import spark_connect
from springline.services.servers.zookeeper import zookeeper
from springline.services.settings import ServiceSettings

SERVERS: Mapping[str, Callable[[ServiceSettings], Server]] = MappingProxyType(
    {
        "postgres": postgres,
        "zookeeper": zookeeper,
        "kafka": kafka,
        "schema-registry": schema_registry,
        "hdfs": hdfs,
        "alluxio": alluxio,
        "s3": s3,
        "spark": spark,
        "spark-connect": spark_connect,
        "airflow": airflow,
    }
)


def make_servers(names: Sequence[str], settings: ServiceSettings) -> tuple[Server, ...]:
    """Create the servers of these names, configured by `settings`; raises `UnknownServerError`."""
    return tuple(SERVERS[name](settings) for name in check_server_names(names))


def servers_to_start(names: Sequence[str], settings: ServiceSettings) -> tuple[Server, ...]:
    """Create the servers of these names in order, each after those that it needs; raises `UnknownServerError`."""
    ordered_servers: dict[str, Server] = {}

    def add(server: Server) -> None:
        for needed in make_servers(server.needs, settings):
            add(needed)
        ordered_servers.setdefault(server.name, server)

    for server in make_servers(names, settings):
        add(server)
    return tuple(ordered_servers.values())


def check_server_names(names: Sequence[str]) -> Sequence[str]:
    """Return `names` if each is the name of a server; raises `UnknownServerError`, naming the available ones."""
    for name in names:
        if name not in SERVERS:
            raise UnknownServerError(f"unknown server {name!r}; available: {', '.join(SERVERS)}")
    return names
