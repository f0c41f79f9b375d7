"""What an S3 store is opened with, which settings Spark gets, and which errors of it pass by themselves."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError

from springline.persistence.backends.fsspec_store import UploadHash
from springline.persistence.backends.registry import open_backend
from springline.persistence.backends.s3 import S3Store, hadoop_conf, is_transient
from springline.persistence.errors import UsageError
from springline.persistence.settings import Settings


def open_s3(uri: str, home: Path, **options: str) -> S3Store:
    """The store at a URI; no server is asked."""
    store = open_backend(uri, "under", Settings(home=home, under_options=options))  # type: ignore[call-arg, arg-type]
    assert isinstance(store, S3Store)
    return store


def test_the_options_reach_both_clients(tmp_path: Path) -> None:
    """That of Python, without a retry of its own, and Hadoop's; the URI is that of Spark."""
    store = open_s3(
        "s3://bucket/pre%20fix?region=eu-1", tmp_path, endpoint_url="http://127.0.0.1:1", key="k", secret="s"
    )
    filesystem = store.filesystem
    assert (filesystem.key, filesystem.secret, filesystem.endpoint_url) == ("k", "s", "http://127.0.0.1:1")
    assert filesystem.client_kwargs == {"region_name": "eu-1"}
    assert filesystem.config_kwargs["retries"] == {"total_max_attempts": 1} and filesystem.retries == 1
    assert store.uri("a/@1-1") == "s3a://bucket/pre fix/a/@1-1"
    assert store.hadoop_conf == {
        "fs.s3a.endpoint": "http://127.0.0.1:1", "fs.s3a.path.style.access": "true", "fs.s3a.endpoint.region": "eu-1",
        "fs.s3a.connection.ssl.enabled": "false", "fs.s3a.access.key": "k", "fs.s3a.secret.key": "s",
    }  # fmt: skip


def test_without_options_hadoop_finds_credentials_and_region_by_itself() -> None:
    """Unless the environment names another server."""
    assert hadoop_conf({}, {}) == {}
    conf = hadoop_conf({}, {"AWS_ENDPOINT_URL": "https://minio:9000"})
    assert conf["fs.s3a.endpoint"] == "https://minio:9000" and conf["fs.s3a.connection.ssl.enabled"] == "true"
    assert conf["fs.s3a.endpoint.region"] == "us-east-1"
    anonymous, temporary = hadoop_conf({"anon": "true"}, {}), hadoop_conf({"key": "k", "secret": "s", "token": "t"}, {})
    assert anonymous["fs.s3a.aws.credentials.provider"].endswith("AnonymousAWSCredentialsProvider")
    assert temporary["fs.s3a.aws.credentials.provider"].endswith("TemporaryAWSCredentialsProvider")


@pytest.mark.parametrize(
    ("uri", "options", "message"),
    [
        ("s3:///prefix", {}, "give s3://bucket/prefix"),
        ("s3://bucket", {"acces_key": "k"}, "no option 'acces_key'; its options: endpoint_url, key"),
        *(
            ("s3://bucket", {"retry_seconds": text}, "give retry_seconds from 0 to 3600")
            for text in ("soon", "-1", "inf", "nan", "")
        ),
    ],
)
def test_what_can_never_work_is_refused_at_once(
    tmp_path: Path, uri: str, options: dict[str, str], message: str
) -> None:
    """With what to write instead."""
    with pytest.raises(UsageError, match=message):
        open_s3(uri, tmp_path, **options)


def test_s3_is_no_cache(tmp_path: Path) -> None:
    """It is slower than what it would be a cache of."""
    with pytest.raises(UsageError, match="as under-store"):
        open_backend("s3://bucket/prefix", "cache", Settings(home=tmp_path))  # type: ignore[call-arg]


def answered(status: int) -> ClientError:
    """What a server's refusal is raised as."""
    response = {"Error": {"Code": "X"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "PutObject")  # type: ignore[arg-type]


def caused_by(error: Exception) -> Exception:
    """An error of s3fs that has another as its cause."""
    outer = OSError("refused")
    outer.__cause__ = error
    return outer


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        *((caused_by(answered(status)), True) for status in (429, 500, 502, 503, 504)),
        *((caused_by(answered(status)), False) for status in (400, 403, 404, 412)),
        (ConnectionClosedError(endpoint_url="x"), True),
        (TimeoutError(), True),
        (EndpointConnectionError(endpoint_url="x"), False),
        (PermissionError(), False),
    ],
)
def test_a_busy_server_is_asked_again_and_one_that_refuses_is_not(error: Exception, *, expected: bool) -> None:
    """Nor one that is not there: the queue asks again, later."""
    assert is_transient(error) is expected


# ---- checksums


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 25, 30])
def test_the_md5_of_a_file_and_of_its_parts_is_computed_on_the_way(size: int) -> None:
    """However it is cut into chunks; of another content it is another."""
    from hashlib import md5

    content = bytes(range(size))
    parts = [content[start : start + 10] for start in range(0, size, 10)]
    of_parts = f"{md5(b''.join(md5(part).digest() for part in parts)).hexdigest()}-{len(parts)}"
    for step in (1, 3, 10, 100):
        sent = UploadHash(10)
        for start in range(0, size, step):
            sent.update(content[start : start + step])
        assert sent.matches({"ETag": f'"{md5(content).hexdigest()}"'}) and sent.matches({"ETag": f'"{of_parts}"'})
        assert sent.matches({"content_settings": {"content_md5": bytearray(md5(content).digest())}})
        assert not any(sent.matches(info) for info in ({}, {"ETag": '"0123"'}, {"ETag": None}, {"md5Hash": "no"}))


def test_a_store_is_opened_without_asking_its_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is away prevents no platform from being opened."""
    monkeypatch.setattr("springline.persistence.backends.s3.CountingS3FileSystem", SimpleNamespace())
    assert open_s3("s3://bucket/prefix", tmp_path).uri("a") == "s3a://bucket/prefix/a"
