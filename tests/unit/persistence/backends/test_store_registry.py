"""Which backend a URI of the settings opens."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest

from springline.persistence.backends.alluxio import AlluxioBackend
from springline.persistence.backends.hdfs import HdfsStore
from springline.persistence.backends.local import LocalBackend
from springline.persistence.backends.registry import Role, open_backend
from springline.persistence.errors import UsageError
from springline.persistence.settings import Settings


@pytest.mark.parametrize(
    ("uri", "role", "kind"),
    [
        ("hdfs://127.0.0.1:1/springline", "under", HdfsStore),
        ("hdfs://nameservice/spring%23line/", "under", HdfsStore),
        ("alluxio://127.0.0.1:1/springline", "cache", AlluxioBackend),
    ],
)
def test_a_servers_backend_is_opened_without_asking_the_server(
    tmp_path: Path, uri: str, role: Role, kind: type
) -> None:
    """The platform opens although a server is down; its locations have the URIs that Hadoop takes: not encoded."""
    backend = open_backend(uri, role, Settings(home=tmp_path))  # type: ignore[call-arg]
    assert isinstance(backend, kind)
    assert backend.uri("a b/@1") == f"{unquote(uri.rstrip('/'))}/a b/@1"


@pytest.mark.parametrize("role", ["cache", "under"])
@pytest.mark.parametrize(("text", "name"), [("file://{}/a%20b%FF", "a b\udcff"), ("{}/a%20?#b", "a%20?#b")])
def test_a_folder_serves_as_both(tmp_path: Path, role: Role, text: str, name: str) -> None:
    """It is made; a percent-encoded URI names the folder that it means, and a path the folder of that name."""
    uri = getattr(Settings(home=tmp_path, **{f"{role}_uri": text.format(tmp_path)}), f"{role}_uri")  # type: ignore[arg-type]
    backend = open_backend(uri, role, Settings(home=tmp_path))  # type: ignore[call-arg]
    assert isinstance(backend, LocalBackend) and backend.root == tmp_path / name


@pytest.mark.parametrize(
    ("uri", "role", "remedy"),
    [
        (
            "tape://bucket/folder",
            "under",
            "installed: abfs, alluxio, file, gs, hdfs, memory, s3, sftp; install a package",
        ),
        ("file://host/folder", "under", "give file:///an/absolute/folder"),
        ("relative/folder", "cache", "is not a URI; give an absolute folder"),
        ("hdfs:///folder", "under", "give hdfs://host:port/folder, as under-store"),
        ("hdfs://host:1/folder", "cache", "give hdfs://host:port/folder, as under-store"),
        ("alluxio://host:1/folder", "under", "give alluxio://host:port/folder, as cache"),
        ("file:///folder?token=1", "under", "has no option 'token'"),
        ("file:///folder?token", "under", "has no option 'token'"),
        ("file:///folder?", "under", "write %23 or %3F"),
        ("file:///data #1/folder", "cache", "write %23 or %3F"),
        ("hdfs://host:1/folder#1", "under", "write %23 or %3F"),
        ("file:///fol\tder", "under", "write them as %0A"),
        ("hdfs://host:1/folder?a=1&a=2", "under", "more than once"),
        ("hdfs://[host:1/folder", "under", "Invalid IPv6"),
    ],
)
def test_a_uri_that_nothing_serves_in_that_role_is_refused(tmp_path: Path, uri: str, role: Role, remedy: str) -> None:
    """Alluxio drops what it holds when its workers die, so it is no under-store; the error says what would do."""
    with pytest.raises(UsageError, match=f"^{role}_uri.*{remedy}"):
        open_backend(uri, role, Settings(home=tmp_path))  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("settings", "parameters"),
    [
        ({"hdfs_user": "somebody"}, {"user.name": "somebody"}),
        ({"hdfs_user": "somebody", "hdfs_token": "secret"}, {"delegation": "secret"}),
    ],
)
def test_users_tokens_and_certificates_are_handed_on(
    tmp_path: Path, settings: dict[str, str], parameters: dict[str, str]
) -> None:
    """A token goes before a user, and is never shown; the certificates hold for both servers."""
    settings_of_stores = Settings(
        home=tmp_path, ca_bundle="/etc/own.pem", alluxio_proxy="https://a:1;https://b:1", **settings
    )  # type: ignore[arg-type]
    under = open_backend("hdfs://127.0.0.1:1/springline", "under", settings_of_stores)
    cache = open_backend("alluxio://127.0.0.1:1/springline", "cache", settings_of_stores)
    assert isinstance(under, HdfsStore) and isinstance(cache, AlluxioBackend)
    assert (under._web._params, under._web._verify) == (parameters, "/etc/own.pem")
    assert [(proxy.url, proxy.session.verify) for proxy in cache._proxies] == [
        ("https://a:1", "/etc/own.pem"),
        ("https://b:1", "/etc/own.pem"),
    ]
    assert "secret" not in repr(settings_of_stores)
