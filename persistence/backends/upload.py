"""The body of one HTTP request, sent chunk by chunk as it is made."""

from __future__ import annotations

import http.client
import ssl
from urllib.parse import urlsplit

_CONNECTIONS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


class Upload:
    """One request whose body is written piece by piece; the caller waits for the network, nothing is kept in memory.

    Raises `OSError` and `http.client.HTTPException` as the network does.
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
        """End the body; returns the status of the answer, and the answer."""
        try:
            self._connection.send(b"0\r\n\r\n")
            return self.answer()
        finally:
            self._connection.close()

    def answer(self) -> tuple[int, bytes]:
        """What the server has answered: to be asked for once, and too when it stopped listening before the end."""
        response = self._connection.getresponse()
        return response.status, response.read()

    def abandon(self) -> None:
        """Break off, so that the server knows that the body is not whole."""
        self._connection.close()
