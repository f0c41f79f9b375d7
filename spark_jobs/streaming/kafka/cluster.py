"""Where a Kafka cluster is, and how its clients are configured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from springline.persistence.model.codec import Codec

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

    def encode(self) -> str:
        """As an option of a Spark query: one line, the same for the same cluster."""
        return _CLUSTERS.encode(replace(self, options=dict(sorted(self.options.items())))).decode()

    @staticmethod
    def decode(text: str) -> Cluster:
        """The inverse of `encode`; raises `DecodeError`."""
        return _CLUSTERS.decode(text.encode(), "the option of a Spark query")


_CLUSTERS: Codec[Cluster] = Codec(
    Cluster, 1, "a cluster", "Spark's executors have another version of Springline than its driver: give them the same"
)
