"""Where a Kafka cluster is, and how its clients are configured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_BYTES = 16 << 20  # of a message


@dataclass(frozen=True)
class Cluster:
    """Where a Kafka cluster is; `options` are librdkafka's, for TLS and SASL among others."""

    servers: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # passwords are among them

    def config(self, **options: Any) -> dict[str, Any]:
        """A client's configuration; the dots of names are written as underscores."""
        own = {name.replace("_", "."): value for name, value in options.items()}
        return {
            "bootstrap.servers": self.servers,
            "socket.nagle.disable": True,
            "socket.keepalive.enable": True,
            "reconnect.backoff.max.ms": 1000,
            "log_level": 3,
            **own,
            **self.options,
        }

    def as_json(self) -> str:
        """One line, the same for the same cluster."""
        return json.dumps({"servers": self.servers, "options": dict(sorted(self.options.items()))})

    @staticmethod
    def from_json(text: str) -> Cluster:
        """The inverse of `as_json`."""
        return Cluster(**json.loads(text))
