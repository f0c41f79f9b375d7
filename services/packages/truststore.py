"""The authorities that this machine trusts, for a Java that would know only those that came with it."""

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
    """Options that make a Java trust whom this machine trusts; they are written to `file`, which holds no secret."""
    named = [PKCS12Certificate(each, f"authority {number}".encode()) for number, each in enumerate(trusted())]
    file.write_bytes(serialize_java_truststore(named, NoEncryption()))
    return (f"-Djavax.net.ssl.trustStore={file}", "-Djavax.net.ssl.trustStoreType=PKCS12")


def trusted() -> list[x509.Certificate]:
    """Whom Python trusts here: by SSL_CERT_FILE and SSL_CERT_DIR, else by the system, else by PyPI's `certifi`."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile:
        files = [Path(paths.cafile)]
    else:
        files = sorted(Path(paths.capath).glob("*.[0-9]")) if paths.capath else []
    return list({found: None for file in files or [Path(certifi.where())] for found in _read(file)})


def _read(file: Path) -> Iterator[x509.Certificate]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some authorities have numbers that no standard allows
        for each in context.get_ca_certs(binary_form=True):
            with suppress(ValueError):
                yield x509.load_der_x509_certificate(each)
