"""Checks whether a Kafka cluster answers, before operations that would wait for it for a long time."""

from __future__ import annotations

import socket
import time
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from springline.spark_jobs.streaming.errors import LogUnavailableError
from springline.spark_jobs.streaming.kafka.cluster import Cluster

_REFUSED_SECONDS = 2.0  # in which a port must accept connections: a broker may be starting
_ANSWER_SECONDS = 10.0  # for a listening broker to answer, on a busy machine
_CONNECT_SECONDS = 2.0
_LAST_PORT = 65535


def require_answer(cluster: Cluster) -> None:
    """Raise `LogUnavailableError`, with remedies, if Kafka does not answer within some seconds."""
    until = time.monotonic() + _REFUSED_SECONDS
    while reason := connection_error(str(cluster.config()["bootstrap.servers"])):
        if time.monotonic() > until:
            raise _unanswered(cluster, reason)
        time.sleep(0.2)
    client_errors: list[str] = []
    quiet: dict[str, Any] = {"log_level": 0, "error_cb": lambda error: client_errors.append(error.str())}
    client = AdminClient({**cluster.config(), **quiet})
    try:
        client.list_topics(timeout=_ANSWER_SECONDS)
    except KafkaException as error:
        raise _unanswered(cluster, client_errors[0] if client_errors else error.args[0].str()) from None


def _unanswered(cluster: Cluster, reason: str) -> LogUnavailableError:
    return LogUnavailableError(
        f"Kafka at {cluster.servers} does not answer; {reason}. "
        "Start it (here: springline up kafka), or set "
        "SPRINGLINE_KAFKA_BOOTSTRAP_SERVERS=HOST:PORT"
    )


def connection_error(servers: str) -> str:
    """Return why none of these addresses accepts connections; empty if one does."""
    reason = "no address is given"
    for server in servers.split(","):
        name = server.strip().rpartition("://")[2]
        host, colon, port = name.rpartition(":")
        if not colon or not port.isdigit() or int(port) > _LAST_PORT:
            reason = f"{name!r} is not HOST:PORT"
            continue
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS):
                return ""
        except OSError as error:
            reason = error.strerror or str(error)
    return reason
