"""Whether a Kafka cluster answers: asked before anything is begun that would wait for it for long."""

from __future__ import annotations

import socket
import time
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from springline.spark_jobs.streaming.errors import LogUnavailableError
from springline.spark_jobs.streaming.kafka.cluster import Cluster

_REFUSED_SECONDS = 2.0  # in which somebody has to listen: a broker may be about to
_ANSWER_SECONDS = 10.0  # for one who listens, on a busy machine
_CONNECT_SECONDS = 2.0
_LAST_PORT = 65535


def require_answer(cluster: Cluster) -> None:
    """Raise `LogUnavailableError`, with what to do, where Kafka does not answer within some seconds."""
    until = time.monotonic() + _REFUSED_SECONDS
    while why := refused(str(cluster.config()["bootstrap.servers"])):
        if time.monotonic() > until:
            raise _unanswered(cluster, why)
        time.sleep(0.2)
    told: list[str] = []
    quiet: dict[str, Any] = {"log_level": 0, "error_cb": lambda error: told.append(error.str())}
    client = AdminClient({**cluster.config(), **quiet})
    try:
        client.list_topics(timeout=_ANSWER_SECONDS)
    except KafkaException as error:
        raise _unanswered(cluster, told[0] if told else error.args[0].str()) from None


def _unanswered(cluster: Cluster, why: str) -> LogUnavailableError:
    return LogUnavailableError(
        f"Kafka at {cluster.servers} does not answer; {why}. "
        "Start it (springline up kafka starts one here), or name another one: "
        "SPRINGLINE_KAFKA=HOST:PORT"
    )


def refused(servers: str) -> str:
    """Why nobody can be reached at any of these addresses; empty where somebody can."""
    why = "no address is given"
    for server in servers.split(","):
        name = server.strip().rpartition("://")[2]
        host, colon, port = name.rpartition(":")
        if not colon or not port.isdigit() or int(port) > _LAST_PORT:
            why = f"{name!r} is no HOST:PORT"
            continue
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS):
                return ""
        except OSError as error:
            why = error.strerror or str(error)
    return why
