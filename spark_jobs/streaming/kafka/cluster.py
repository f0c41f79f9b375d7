"""The address of a Kafka cluster, and the configuration of its clients."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

logger = logging.getLogger("springline.kafka")  # of librdkafka's own messages too, such as refused connections


@dataclass(frozen=True)
class Cluster:
    """The address of a Kafka cluster; `options` are librdkafka's, for example for TLS and SASL."""

    servers: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # not shown, since they include passwords

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each broker that `servers` names; 9092 where no port is given."""
        pairs = [each.strip().rpartition("://")[2] for each in self.servers.split(",") if each.strip()]
        return [
            (host.strip("[]"), int(port)) if colon and port.isdigit() else (each.strip("[]"), 9092)
            for each in pairs
            for host, colon, port in [each.rpartition(":")]
        ]

    def config(self, **options: Any) -> dict[str, Any]:
        """Return a client's configuration; dots in the names of options are written as underscores."""
        own = {name.replace("_", "."): value for name, value in options.items()}
        return {
            "bootstrap.servers": self.servers,
            "socket.nagle.disable": True,
            "socket.keepalive.enable": True,
            # librdkafka's consumers do not back off: at its 100 ms, the clients of a few jobs keep two cores busy with
            # refused connections while a broker starts again, which slows it down.
            "reconnect.backoff.ms": 250,
            "reconnect.backoff.max.ms": 1000,
            "log_level": 3,
            "logger": logger,
            **own,
            **self.options,
        }
