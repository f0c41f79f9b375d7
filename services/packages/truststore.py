"""A trust store with this machine's certificate authorities, for a Java that has only its built-in ones."""

from __future__ import annotations

import ssl
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import certifi
from cryptography import x509
from cryptography.hazmat.primitives.serialization import NoEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore


def java_options(file: Path) -> tuple[str, ...]:
    """Write this machine's trusted certificates to `file`, without secrets, and return the Java options for it."""
    entries = [
        PKCS12Certificate(each, f"authority {number}".encode()) for number, each in enumerate(trusted_certificates())
    ]
    file.write_bytes(serialize_java_truststore(entries, NoEncryption()))
    return (f"-Djavax.net.ssl.trustStore={file}", "-Djavax.net.ssl.trustStoreType=PKCS12")


def trusted_certificates() -> list[x509.Certificate]:
    """Return Python's trusted certificates: SSL_CERT_FILE and SSL_CERT_DIR, else the system's, else `certifi`'s."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile:
        files = [Path(paths.cafile)]
    else:
        files = sorted(Path(paths.capath).glob("*.[0-9]")) if paths.capath else []
    return list(
        {certificate: None for file in files or [Path(certifi.where())] for certificate in _read_certificates(file)}
    )


def _read_certificates(file: Path) -> Iterator[x509.Certificate]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some authorities have serial numbers that the standard does not allow
        for each in context.get_ca_certs(binary_form=True):
            with suppress(ValueError):
                yield x509.load_der_x509_certificate(each)
