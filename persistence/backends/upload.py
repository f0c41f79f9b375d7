"""The body of one HTTP request, sent chunk by chunk as it is produced."""

from __future__ import annotations

import http.client
import ssl
from urllib.parse import urlsplit

_CONNECTIONS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


class Upload:
    """One request whose body is written in pieces; each write blocks on the network, nothing is buffered in memory.

    Raises `OSError` and `http.client.HTTPException` for errors of the network.
    """

    def __init__(self, method: str, url: str, *, seconds: float, ca_bundle: str = "") -> None:
        parts = urlsplit(url)
        secure = {"context": ssl.create_default_context(cafile=ca_bundle or None)} if parts.scheme == "https" else {}
        self._connection = _CONNECTIONS[parts.scheme](parts.netloc, timeout=seconds, **secure)  # type: ignore[arg-type]
        self._connection.putrequest(method, f"{parts.path}?{parts.query}" if parts.query else parts.path)
        self._connection.putheader("Content-Type", "application/octet-stream")
        self._connection.putheader("Transfer-Encoding", "chunked")
        self._connection.endheaders()

    def write(self, chunk: bytes) -> None:
        """Send one piece."""
        if chunk:  # an empty piece would end the body
            self._connection.send(b"%x\r\n" % len(chunk))
            self._connection.send(chunk)
            self._connection.send(b"\r\n")

    def finish(self) -> tuple[int, bytes]:
        """End the body; returns the status and the body of the response."""
        try:
            self._connection.send(b"0\r\n\r\n")
            return self.read_response()
        finally:
            self._connection.close()

    def read_response(self) -> tuple[int, bytes]:
        """Return the server's response; call it once, also if the server stopped reading before the end."""
        response = self._connection.getresponse()
        return response.status, response.read()

    def abandon(self) -> None:
        """Close the connection, so that the server knows that the body is incomplete."""
        self._connection.close()
