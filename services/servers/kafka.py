"""Apache Kafka in KRaft mode: broker and controller in one process."""

from __future__ import annotations

import base64
import hashlib
import os
from functools import partial

from springline.services.packages.jars import Jars
from springline.services.packages.java import ServerJava, find_java
from springline.services.process.ports import is_listening
from springline.services.server import ANSWER_SECONDS, InitStep, Process, Server
from springline.services.settings import ServiceSettings, conf_path


def kafka(settings: ServiceSettings) -> Server:
    """Describe the server as configured by `settings`."""
    folder = settings.home / "kafka"
    java = find_java(os.environ, settings.home)
    properties = str(conf_path("kafka") / "server.properties")
    return Server(
        name="kafka",
        address=f"127.0.0.1:{settings.kafka_port}",
        folder=folder,
        processes=(Process("broker", (*_command(settings, java, "kafka.Kafka"), properties)),),
        environment={
            "BROKER_BIND": "127.0.0.1",
            "BROKER_HOST": "127.0.0.1",
            "BROKER_PORT": str(settings.kafka_port),
            "CONTROLLER_PORT": str(settings.kafka_controller_port),
            "BROKER_FOLDER": str(folder / "data"),
        },
        ports={
            "SPRINGLINE_KAFKA_PORT": settings.kafka_port,
            "SPRINGLINE_KAFKA_CONTROLLER_PORT": settings.kafka_controller_port,
        },
        readiness_problem=partial(_readiness_problem, settings.kafka_port),
        prepare=partial(_prepare, settings),
        init_steps=(
            InitStep(
                "format",
                (
                    *_command(settings, java, "kafka.tools.StorageTool"),
                    *("format", "--standalone", "--ignore-formatted", "-t", _cluster_id(settings), "-c", properties),
                ),
                folder / "formatted",
            ),
        ),
    )


def _command(settings: ServiceSettings, java: ServerJava, main: str) -> tuple[str, ...]:
    return java.command(
        main,
        heap=settings.kafka_heap,
        classpath=(settings.jars_folder / "kafka" / "*",),
        options=(f"-Dlog4j2.configurationFile={conf_path('log4j2.properties').as_uri()}",),
    )


def _cluster_id(settings: ServiceSettings) -> str:
    """Return the cluster id: 22 characters, derived from the home folder."""
    mark = hashlib.sha256(os.fsencode(settings.home)).digest()[:16]
    return "s" + base64.urlsafe_b64encode(mark).decode().rstrip("=")[1:]  # it must not begin with a dash


def _prepare(settings: ServiceSettings) -> None:
    Jars(settings).folder("kafka")


def _readiness_problem(port: int) -> str:
    if not is_listening(port):  # the client would retry with growing delays
        return f"nothing listens on port {port}"

    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError

    try:
        admin = KafkaAdminClient(
            bootstrap_servers=f"127.0.0.1:{port}",
            request_timeout_ms=round(ANSWER_SECONDS * 1000),
            reconnect_backoff_max_ms=200,
        )
        try:
            brokers = admin.describe_cluster()["brokers"]
        finally:
            admin.close()
    except KafkaError as error:
        return f"cluster metadata is not available ({error})"
    return "" if brokers else "no broker has registered"
