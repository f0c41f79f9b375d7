"""Whom a packaged Java trusts: whom this machine trusts, wherever that is written."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

from springline.services.packages.truststore import java_options, trusted_certificates

LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


def authority(name: str) -> x509.Certificate:
    """One that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), 1, LONG_AGO, LONG_AGO.replace(year=2100))
    extended = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return extended.sign(key, hashes.SHA256())


def test_a_packaged_java_trusts_whom_this_machine_trusts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a file that the environment names, as where a company's proxy reads along, else of OpenSSL's folder.

    Java is given them as it wants them; where there is nothing, it trusts those of a package.
    """
    own_certificate = authority("Ours")
    content = own_certificate.public_bytes(Encoding.PEM)
    (tmp_path / "ours.pem").write_bytes(content + authority("Theirs").public_bytes(Encoding.PEM))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ours.pem"))
    assert own_certificate in trusted_certificates() and len(trusted_certificates()) == 2
    store, kind = java_options(tmp_path / "trusted.p12")
    assert kind.endswith("=PKCS12")
    certificates = load_pkcs12(Path(store.partition("=")[2]).read_bytes(), None).additional_certs
    assert {each.certificate for each in certificates} == set(trusted_certificates())
    monkeypatch.delenv("SSL_CERT_FILE")
    folder, paths = tmp_path / "folder", ssl.get_default_verify_paths()
    folder.mkdir()
    (folder / "0a1b2c3d.0").write_bytes(content)
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths._replace(cafile=None, capath=str(folder)))
    assert trusted_certificates() == [own_certificate]
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths._replace(cafile=None, capath=None))
    assert own_certificate not in trusted_certificates() and len(trusted_certificates()) > 50
