"""A reporter that keeps the values it is given, and a collector that keeps what it is sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from springline.persistence.monitoring.metric import Metric, MetricsReporter


class RecordingReporter(MetricsReporter):
    """Keeps all values reported, as (name, value, tags)."""

    def __init__(self) -> None:
        self.values: list[tuple[str, float, dict[str, str]]] = []

    def record(self, metric: Metric, value: float, tags: Mapping[str, str]) -> None:
        self.values.append((metric.name, value, dict(tags)))

    def close(self) -> None:
        pass

    def of(self, metric: Metric) -> list[tuple[float, dict[str, str]]]:
        """What was reported of one metric."""
        return [(value, tags) for name, value, tags in self.values if name == metric.name]


@contextmanager
def collector() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """A server that takes everything that is posted: its address, and what came, as (path, body)."""
    requests: list[tuple[str, bytes]] = []

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()
