"""Record batches are read over TLS and SASL, as the options of Kafka's clients say; wrong credentials are an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from springline.services.process.ports import free_ports
from springline.services.scratch_home import scratch_settings
from springline.services.servers.kafka import kafka
from springline.services.settings import conf_path
from springline.services.supervisor import Supervisor
from springline.spark_jobs.streaming.errors import LogUnavailableError
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.fetcher import RecordFetcher
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord

LOGIN = {"sasl.username": "ulla", "sasl.password": "secret, =word"}
_JAAS = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class SecuredKafka:
    """A broker with a port for each protocol, and the file of the certificate that it shows."""

    ports: Mapping[str, int]
    certificate: Path

    def cluster(self, protocol: str, **options: str) -> Cluster:
        """The cluster at the port of a protocol."""
        own = {"security.protocol": protocol.lower()} | {name.replace("_", "."): text for name, text in options.items()}
        if protocol.endswith("SSL"):
            own = {"ssl.ca.location": str(self.certificate), **own}
        return Cluster(f"127.0.0.1:{self.ports[protocol]}", own)


def write_certificate(folder: Path) -> Path:
    """A certificate that signs itself, with its key in another file beside it."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "both.pem").write_bytes(private + certificate.public_bytes(pem))
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(pem))
    return folder / "certificate.pem"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A broker of this module's own."""
    folder = tmp_path_factory.mktemp("secured")
    settings, certificate = scratch_settings(folder / "home"), write_certificate(folder)
    settings.home.mkdir(parents=True, exist_ok=True)
    first = free_ports(3)
    ports = {"PLAINTEXT": settings.kafka_port} | {
        protocol: first + index for index, protocol in enumerate(("SSL", "SASL_SSL", "SASL_PLAINTEXT"))
    }
    listeners = ",".join(f"{protocol}://127.0.0.1:{port}" for protocol, port in ports.items())
    mechanisms = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
    lines = [
        (conf_path("kafka") / "server.properties").read_text(),
        f"listeners={listeners},CONTROLLER://127.0.0.1:{settings.kafka_controller_port}",
        f"advertised.listeners={listeners},CONTROLLER://127.0.0.1:{settings.kafka_controller_port}",
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT," + ",".join(f"{each}:{each}" for each in ports),
        "ssl.keystore.type=PEM", f"ssl.keystore.location={folder / 'both.pem'}",
        f"sasl.enabled.mechanisms={mechanisms}",
    ]  # fmt: skip
    for protocol in ("sasl_ssl", "sasl_plaintext"):
        prefix = f"listener.name.{protocol}"
        password = LOGIN["sasl.password"]
        plain = f'{_JAAS}.plain.PlainLoginModule required user_ulla="{password}";'
        lines += [f"{prefix}.sasl.enabled.mechanisms={mechanisms}", f"{prefix}.plain.sasl.jaas.config={plain}"]
        lines += [
            f"{prefix}.scram-sha-{bits}.sasl.jaas.config={_JAAS}.scram.ScramLoginModule required;"
            for bits in (256, 512)
        ]
    properties = folder / "server.properties"
    properties.write_text("\n".join(lines))
    server, shared = kafka(settings), str(conf_path("kafka") / "server.properties")
    server = replace(
        server,
        processes=tuple(
            replace(each, command=tuple(str(properties) if part == shared else part for part in each.command))
            for each in server.processes
        ),
    )
    supervisor = Supervisor(settings.home)
    supervisor.up([server], 120)
    try:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{settings.kafka_port}"})
        upserts = [
            UserScramCredentialUpsertion(
                "ulla", ScramCredentialInfo(mechanism, 4096), LOGIN["sasl.password"].encode()
            )
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]  # fmt: skip
        for upsert in upserts:
            admin.alter_user_scram_credentials([upsert])["ulla"].result(30)
        yield SecuredKafka(ports, certificate)
    finally:
        supervisor.down("kafka", 5)


WAYS: list[tuple[str, dict[str, str]]] = [
    ("PLAINTEXT", {}),
    ("SSL", {}),
    ("SSL", {"ssl.endpoint.identification.algorithm": "none"}),
    *((protocol, {"sasl.mechanism": mechanism, **LOGIN}) for protocol in ("SASL_SSL", "SASL_PLAINTEXT")
      for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
]  # fmt: skip


@pytest.mark.parametrize(("protocol", "options"), WAYS, ids=lambda each: each if isinstance(each, str) else "")
def test_messages_are_sent_and_read(secured: SecuredKafka, protocol: str, options: dict[str, str]) -> None:
    """By the same options; as record batches, not message by message."""
    topic = f"t-{protocol}-{'-'.join(options.values())}".replace(" ", "").replace(",", "").replace("=", "")[:200]
    topic = "".join(each if each.isalnum() else "-" for each in topic)
    cluster = secured.cluster(protocol, **options)
    with closing(Kafka(cluster, timeout=20)) as log:
        log.create({topic: 1})
        with log.record_sender() as sender:
            sender.send(OutgoingRecord(topic, 0, b"x" * 100_000))
            sender.send(OutgoingRecord(topic, 0, b"y", key=b"k"))
        with closing(RecordFetcher(cluster, 10.0, log.offset_bounds)) as fetcher:
            (batch,) = fetcher.fetch(topic, 0, 0, 2, number=0)
            assert [(message.value, message.key) for message in batch] == [(b"x" * 100_000, None), (b"y", b"k")]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_wrong_credentials_are_an_error_at_once(secured: SecuredKafka, mechanism: str) -> None:
    """With what the broker says, without the password."""
    cluster = secured.cluster(
        "SASL_PLAINTEXT", **{"sasl.mechanism": mechanism, "sasl.username": "ulla", "sasl.password": "other"}
    )
    with (
        closing(RecordFetcher(cluster, 60.0, lambda topic: {})) as fetcher,
        pytest.raises(LogUnavailableError, match=r"SASL_AUTHENTICATION_FAILED: .*") as caught,
    ):
        list(fetcher.fetch("any", 0, 0, 1, number=0))
    assert "other" not in str(caught.value)


def test_a_certificate_that_nobody_signed_is_an_error_at_once(secured: SecuredKafka) -> None:
    """It is not that of the named file."""
    cluster = Cluster(f"127.0.0.1:{secured.ports['SSL']}", {"security.protocol": "ssl"})
    with (
        closing(RecordFetcher(cluster, 60.0, lambda topic: {})) as fetcher,
        pytest.raises(LogUnavailableError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        list(fetcher.fetch("any", 0, 0, 1, number=0))
