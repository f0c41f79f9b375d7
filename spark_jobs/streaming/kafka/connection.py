"""Connections to brokers that record batches are read by: blocking, with TLS and SASL as the cluster's options say.

They are our own because nothing else hands out record batches as they were sent: librdkafka keeps them to itself, and
kafka-python takes four times as long for a megabyte. Authentication is kafka-python's.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from springline.spark_jobs.streaming.errors import ProtocolError, UnsupportedClusterError
from springline.spark_jobs.streaming.kafka.protocol import (
    API_VERSIONS,
    FETCH,
    METADATA,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    VERSIONS,
    ResponseReader,
    bytes_body,
    error_name,
    frame,
    read_versions,
    string_body,
)

_CONNECT_SECONDS = 10.0
_MAX_RESPONSE_BYTES = 1 << 30
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_TLS = {
    "ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password", "ssl.crl.location",
    "ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification",
}  # fmt: skip


@dataclass(frozen=True)
class Security:
    """How connections are secured; `options` are librdkafka's.

    Raises `UnsupportedClusterError` if they ask for something that is not there, such as Kerberos.
    """

    options: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
            raise UnsupportedClusterError(f"security.protocol is {self.protocol}")
        if self.has_tls and (odd := sorted(name for name in self.options if name[:4] == "ssl." and name not in _TLS)):
            raise UnsupportedClusterError(f"the option {odd[0]}")
        if self.has_sasl and self.mechanism not in _MECHANISMS:
            raise UnsupportedClusterError(f"sasl.mechanism is {self.mechanism}")

    @property
    def protocol(self) -> str:
        """The protocol, as the option `security.protocol` names it."""
        return self.options.get("security.protocol", "plaintext").upper()

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        """Whether clients authenticate by SASL."""
        return self.protocol.startswith("SASL")

    @property
    def mechanism(self) -> str:
        """The mechanism of SASL."""
        return self.options.get("sasl.mechanism", self.options.get("sasl.mechanisms", "GSSAPI"))

    def tls(self) -> ssl.SSLContext:
        """Return how a connection is encrypted; raises `OSError` if a file is missing or no certificate."""
        context = ssl.create_default_context(cafile=self.options.get("ssl.ca.location"))
        if self.options.get("ssl.endpoint.identification.algorithm", "https") == "none":
            context.check_hostname = False
        if str(self.options.get("enable.ssl.certificate.verification", "true")).lower() == "false":
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if certificate := self.options.get("ssl.certificate.location"):
            context.load_cert_chain(
                certificate, self.options.get("ssl.key.location"), self.options.get("ssl.key.password")
            )
        if revoked := self.options.get("ssl.crl.location"):
            context.load_verify_locations(revoked)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        return context

    def authentication(self) -> Any:
        """Return a dialogue of the mechanism: a `SaslMechanism` of kafka-python."""
        from kafka.net.sasl import get_sasl_mechanism

        return get_sasl_mechanism(self.mechanism)(
            sasl_mechanism=self.mechanism,
            sasl_plain_username=self.options.get("sasl.username", ""),
            sasl_plain_password=self.options.get("sasl.password", ""),
        )


class BrokerConnection:
    """A connection to a broker. Not thread-safe.

    Every method raises `OSError` if it breaks or nothing comes for `timeout` seconds, and then it is of no use any
    more; `ProtocolError` if what comes is no response; the constructor also `UnsupportedClusterError` if the broker is
    too old, and `PermissionError` if it refuses the credentials.
    """

    def __init__(self, address: tuple[str, int], security: Security, timeout: float) -> None:
        plain = socket.create_connection(address, timeout=min(timeout, _CONNECT_SECONDS))
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            plain.settimeout(timeout)
            self._socket = security.tls().wrap_socket(plain, server_hostname=address[0]) if security.has_tls else plain
            self._correlation = 0
            self._answers: dict[int, memoryview | None] = {}  # those that are awaited, None until they have come
            self._check_versions()
            if security.has_sasl:
                self._authenticate(security)
        except BaseException:
            plain.close()
            raise

    def send(self, request: int, body: bytes) -> int:
        """Send a request; returns the number of its response, which must be received or forgotten."""
        self._correlation += 1
        self._answers[self._correlation] = None
        self._socket.sendall(frame(request, self._correlation, body))
        return self._correlation

    def receive(self, number: int) -> memoryview:
        """Return the response with a number; others that come before it wait until they are received."""
        while (answer := self._answers[number]) is None:
            (size,) = struct.unpack(">i", self._receive(4))
            if not 4 <= size <= _MAX_RESPONSE_BYTES:
                raise ProtocolError(
                    f"a response of {size:,} bytes: this is no port of Kafka, or one with other security"
                )
            content = self._receive(size)
            (received,) = struct.unpack_from(">i", content)
            if not 0 < received <= self._correlation:
                raise ProtocolError(f"a response with the number {received}, of {self._correlation} requests")
            if received in self._answers:
                self._answers[received] = content[4:]
        del self._answers[number]
        return answer

    def forget(self, number: int) -> None:
        """Say that a response is not needed any more."""
        self._answers.pop(number, None)

    def call(self, request: int, body: bytes) -> memoryview:
        """Send a request, and return its response."""
        return self.receive(self.send(request, body))

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self._socket.close()

    def _receive(self, size: int) -> memoryview:
        content = memoryview(bytearray(size))
        position = 0
        while position < size:
            count = self._socket.recv_into(content[position:])
            if not count:
                raise ConnectionResetError("the broker has closed the connection")
            position += count
        return content

    def _check_versions(self) -> None:
        versions = read_versions(self.call(API_VERSIONS, b""))
        for request in (FETCH, METADATA):
            least, most = versions.get(request, (0, -1))
            if not least <= VERSIONS[request] <= most:
                raise UnsupportedClusterError("the broker is older than Kafka 2.3")

    def _authenticate(self, security: Security) -> None:
        """Raise `PermissionError` if the broker refuses the credentials, or cannot prove that it knows them."""
        reader = ResponseReader(self.call(SASL_HANDSHAKE, string_body(security.mechanism)))
        (error,) = reader.take(">h")
        if error:
            raise PermissionError(f"{error_name(error)}: {security.mechanism}")
        dialogue = security.authentication()
        while not dialogue.is_done():
            reader = ResponseReader(self.call(SASL_AUTHENTICATE, bytes_body(dialogue.auth_bytes())))
            (error,) = reader.take(">h")
            reason = reader.string()
            if error:
                raise PermissionError(f"{error_name(error)}: {reason}")
            try:
                dialogue.receive(bytes(reader.bytes()))
            except ValueError as failure:
                raise PermissionError(str(failure)) from failure
        if not dialogue.is_authenticated():
            raise PermissionError("the broker has not accepted the credentials")
