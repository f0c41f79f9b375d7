"""Counts what a platform asks of its catalog and, over a network, of its stores."""

from __future__ import annotations

import http.client
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from springline.persistence.backends.hdfs_filesystem import HdfsFileSystem
from springline.persistence.platform import Platform


@contextmanager
def counted_calls(platform: Platform) -> Iterator[Counter[str]]:
    """Count, inside the block: `transactions` and `statements` of the catalog, `requests` over HTTP, `connections` for
    them, and `steps` of HDFS's own protocol.
    """
    calls: Counter[str] = Counter()

    def counting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            calls[name] += 1
            return method(*arguments, **options)

        return call

    def on_begin(*_: Any) -> None:
        calls["transactions"] += 1

    def on_statement(*_: Any) -> None:
        calls["statements"] += 1

    engine = platform.catalog.engine
    event.listen(engine, "begin", on_begin)
    event.listen(engine, "before_cursor_execute", on_statement)
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, owner, method in (
                ("requests", http.client.HTTPConnection, "putrequest"),
                ("connections", http.client.HTTPConnection, "connect"),
                ("steps", HdfsFileSystem, "run_step"),
            ):
                patch.setattr(owner, method, counting(name, getattr(owner, method)))
            yield calls
    finally:
        event.remove(engine, "begin", on_begin)
        event.remove(engine, "before_cursor_execute", on_statement)
