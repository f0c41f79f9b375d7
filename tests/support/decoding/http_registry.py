"""A schema registry in this process, for messages that begin with the id of their schema."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fastavro


class HttpRegistry:
    """What is registered, and what was asked for; `answers` come first, as (status, body)."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.versions: dict[str, int] = {}  # id by SUBJECT/VERSION
        self.answers: list[tuple[int, bytes]] = []
        self.asked: list[str] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def register(self, schema: object, subject: str = "", kind: str = "", references: object = ()) -> int:
        """Register a schema, and as version 1 of a subject if one is given; returns its id."""
        schema_id = len(self.schemas) + 1
        self.schemas[schema_id] = {"schema": schema if isinstance(schema, str) else json.dumps(schema)}
        self.schemas[schema_id] |= {"schemaType": kind} if kind else {}
        self.schemas[schema_id] |= {"references": references} if references else {}
        if subject:
            self.versions[f"{subject}/1"] = schema_id
        return schema_id

    def answer(self, path: str) -> tuple[int, bytes]:
        """Return status and body for a request."""
        self.asked.append(path)
        if self.answers:
            return self.answers.pop(0)
        _, kind, *rest = path.partition("?")[0].split("/")
        if kind == "schemas" and int(rest[-1]) in self.schemas:
            return 200, json.dumps(self.schemas[int(rest[-1])]).encode()
        if (kind, rest) == ("subjects", []):
            return 200, json.dumps([place.partition("/")[0] for place in self.versions]).encode()
        if kind == "subjects" and (schema_id := self.versions.get(f"{rest[0]}/{rest[2]}")):
            about = {"subject": rest[0], "version": int(rest[2]), "id": schema_id}
            return 200, json.dumps({**about, **self.schemas[schema_id]}).encode()
        code = 40403 if kind == "schemas" else 40402
        return 404, json.dumps({"error_code": code, "message": "not found"}).encode()


def _handler(registry: HttpRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = registry.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def serving() -> Iterator[HttpRegistry]:
    """Yield a registry that answers."""
    registry = HttpRegistry()
    thread = threading.Thread(target=registry.server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield registry
    finally:
        registry.server.shutdown()
        registry.server.server_close()
        thread.join()


def framed(schema_id: int, schema: Any, record: object) -> bytes:
    """Return a message: a zero, the id of the schema, the record as fastavro encodes it."""
    content = io.BytesIO(b"\0" + schema_id.to_bytes(4, "big"))
    content.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(content, fastavro.parse_schema(schema), record)
    return content.getvalue()
