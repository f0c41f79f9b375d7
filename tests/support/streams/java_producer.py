"""Kafka's own client in a JVM, as a producer: what it writes differs from librdkafka in batches and compression."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from springline.services.packages.jars import Jars
from springline.services.packages.java import find_java
from springline.services.settings import ServiceSettings

_BYTES = "org.apache.kafka.common.serialization.ByteArraySerializer"


@dataclass
class JavaProducer:
    """A transactional producer; each transaction is some records of one topic."""

    gateway: JavaGateway
    producer: Any

    def transaction(self, topic: str, values: Sequence[tuple[bytes | None, bytes | None]], *, commit: bool) -> None:
        """Send keys and values to partition 0, each with a header, and commit them or not."""
        jvm = self.gateway.jvm
        self.producer.beginTransaction()
        for key, value in values:
            record = jvm.org.apache.kafka.clients.producer.ProducerRecord(topic, 0, key, value)
            record.headers().add("of", b"java")
            self.producer.send(record)
        self.producer.flush()
        if commit:
            self.producer.commitTransaction()
        else:
            self.producer.abortTransaction()


@contextmanager
def java_producer(settings: ServiceSettings, servers: str, compression: str, identity: str) -> Iterator[JavaProducer]:
    """A producer in a JVM of its own, which ends with the context."""
    jars = [str(jar) for jar in sorted(Jars(settings).folder("kafka").glob("*.jar"))]
    (bridge,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    java = find_java(os.environ, settings.home)
    port, token, jvm = launch_gateway(
        jarpath=str(bridge), classpath=os.pathsep.join(jars), java_path=str(java.home / "bin" / "java"),
        enable_auth=True, return_proc=True,
    )  # fmt: skip
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        properties = gateway.jvm.java.util.Properties()
        for name, value in {
            "bootstrap.servers": servers, "key.serializer": _BYTES, "value.serializer": _BYTES, "linger.ms": "5",
            "compression.type": compression, "transactional.id": identity, "max.request.size": str(16 << 20),
        }.items():  # fmt: skip
            properties.setProperty(name, value)
        producer = gateway.jvm.org.apache.kafka.clients.producer.KafkaProducer(properties)
        producer.initTransactions()
        yield JavaProducer(gateway, producer)
        producer.close()
    finally:
        gateway.close()
        jvm.kill()
        jvm.wait()
