"""The hook of Springline's Connection type: it tests whether a store responds."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseHook

from springline.airflow.connections import CACHE, store_uri
from springline.airflow.provider import STORE_TYPE
from springline.persistence.backends.local import LocalBackend
from springline.persistence.backends.registry import open_backend
from springline.persistence.backends.spec import Backend
from springline.persistence.engine.verification import under_store_unavailable_reason
from springline.persistence.errors import PersistenceError, UsageError
from springline.persistence.settings import Settings


class StoreHook(BaseHook):
    """A cache or an under-store that a Connection of the type `springline_store` names.

    Args:
        store_conn_id: id of the Connection; the default is the cache's.

    Example:
        >>> StoreHook("springline_under").test_connection()  # doctest: +SKIP
        (True, 'hdfs://namenode:8020/springline answers')
    """

    conn_name_attr = "store_conn_id"
    default_conn_name = CACHE
    conn_type = STORE_TYPE
    hook_name = "Springline store"

    def __init__(self, store_conn_id: str = default_conn_name, **more: Any) -> None:
        super().__init__(**more)
        self.store_conn_id = store_conn_id

    def get_conn(self) -> str:
        """Return the URI of the store, or the path of its folder."""
        connection: Any = self.get_connection(self.store_conn_id)
        return store_uri(self.store_conn_id, connection)

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the store responds, and its message."""
        try:
            uri = self.get_conn()
            store = self._open_store(uri)
            if isinstance(store, LocalBackend) and not store.root.is_dir():
                return False, f"{store.root}: the folder does not exist"
            away = under_store_unavailable_reason(store)
        except (PersistenceError, ValueError) as error:
            return False, str(error)
        return not away, away or f"{uri} answers"

    def _open_store(self, uri: str) -> Backend:
        """Open the store as a cache, otherwise as an under-store, for which a folder would get a marker file."""
        connection: Any = self.get_connection(self.store_conn_id)
        options = connection.extra_dejson.get("options") or {}
        settings = Settings(cache_options=options, under_options=options)  # type: ignore[call-arg]
        try:
            return open_backend(uri, "cache", settings, in_use=lambda: True)
        except UsageError:
            return open_backend(uri, "under", settings, in_use=lambda: True)
