"""Opens the backend that a URI of the settings names; what only one kind needs is imported only for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from springline.persistence.backends.bandwidth_limit import Link
from springline.persistence.backends.local import LocalBackend
from springline.persistence.backends.spec import Backend
from springline.persistence.errors import Misuse, StorageUnavailable
from springline.persistence.private_files import private_folder
from springline.persistence.settings import Settings

_FORMS = {
    "cache": "file:///an/absolute/folder or alluxio://host:port/folder",
    "under": "file:///an/absolute/folder or hdfs://host:port/folder",
}


def open_backend(uri: str, role: str, settings: Settings, *, in_use: Callable[[], bool] = lambda: False) -> Backend:
    """The backend at `uri` for a role, "cache" or "under"; raises `PersistenceError` if none serves it.

    A folder that is not there is made, unless it is `in_use`: then its disk is not mounted, and using it fails. So does
    an under-store in use whose root has not its mark; see `persistence/backends/root_mark.py`.
    """
    parts = urlsplit(uri)
    link = Link(settings.under_bandwidth, settings.home / "link.state") if role == "under" else None
    try:
        if parts.scheme == "file" and not parts.netloc and parts.path.startswith("/"):
            return _folder(parts, settings, link, in_use)
        if parts.scheme == "hdfs" and parts.hostname and role == "under":
            return _hdfs(parts, settings, link, in_use)
        if parts.scheme == "alluxio" and parts.hostname and role == "cache":
            return _alluxio(parts, settings)
    except ImportError as error:
        raise Misuse(f"{uri} needs the Python package {error.name}: `make setup` installs it") from error
    raise Misuse(f"{role}_uri {uri!r}: no backend serves this; give {_FORMS[role]}")


def _folder(parts: SplitResult, settings: Settings, link: Link | None, in_use: Callable[[], bool]) -> Backend:
    root = Path(unquote(parts.path))
    with suppress(OSError):  # out of reach for now: whoever uses it is told so, and may try again
        if (root.is_dir() and root.parent == settings.home) or (not root.is_dir() and not in_use()):
            private_folder(root)  # one of a user's own that is there already keeps its rights
    if link is None:
        return LocalBackend(root)
    store = LocalBackend(root, link=link, capacity=settings.under_capacity, durable=True, in_use=in_use)
    with suppress(StorageUnavailable):
        store.mark_root()
    return store


def _hdfs(parts: SplitResult, settings: Settings, link: Link | None, in_use: Callable[[], bool]) -> Backend:
    from springline.persistence.backends.hdfs import HdfsBackend
    from springline.persistence.backends.hdfs_bytes import HdfsBytes
    from springline.persistence.backends.webhdfs import WebHdfs

    server = f"hdfs://{parts.netloc}"
    web = WebHdfs(
        settings.hdfs_http or f"http://{parts.hostname}:9870",
        server=server,
        user=settings.hdfs_user,
        token=settings.hdfs_token.get_secret_value(),
        ca_bundle=settings.ca_bundle,
    )
    content = HdfsBytes(server, user=settings.hdfs_user)
    uri = f"{server}{parts.path}"
    return HdfsBackend(uri, web, content, link=link, capacity=settings.under_capacity, in_use=in_use)


def _alluxio(parts: SplitResult, settings: Settings) -> Backend:
    from springline.persistence.backends.alluxio import AlluxioBackend
    from springline.persistence.backends.alluxio_proxy import AlluxioProxy

    server = f"alluxio://{parts.netloc}"
    urls = settings.alluxio_proxy or f"http://{parts.hostname}:39999"
    proxies = [AlluxioProxy(url, server=server, ca_bundle=settings.ca_bundle) for url in urls.split(";") if url]
    return AlluxioBackend(f"{server}{parts.path}", proxies)
