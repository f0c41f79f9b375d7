"""A way to a server on this machine on which things happen: refusals, breaks, and little bandwidth."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

_ERROR = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'
_PIECE = 16 << 10


class FaultyProxy:
    """Passes connections to a port of this machine, piece by piece, unless a fault is set."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._refuse_until, self._status, self._code = 0.0, 503, ""
        self._bandwidth = 0
        self._break_after = -1  # bytes to the server
        self._lock = threading.Lock()

    def __enter__(self) -> FaultyProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def answer_with(self, status: int, *, seconds: float, code: str = "SlowDown") -> None:
        """Answer each request with an error of S3, for a while."""
        self._status, self._code = status, code
        self._refuse_until = time.monotonic() + seconds

    def break_after(self, count: int) -> None:
        """Cut every connection once so many bytes have passed to the server."""
        self._break_after = count

    def limit(self, bandwidth: int) -> None:
        """Let pass so many bytes a second in each direction of a connection."""
        self._bandwidth = bandwidth

    def heal(self) -> None:
        """Pass everything again."""
        self._refuse_until, self._break_after, self._bandwidth = 0.0, -1, 0

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """Look at each request's head: refuse it, or pass it on to a connection to the server."""
        with contextlib.suppress(OSError), client, socket.create_connection(("127.0.0.1", self._port)) as server:
            back = threading.Thread(target=self._pass, args=(server, client), daemon=True)
            back.start()
            while head := client.recv(_PIECE):
                if time.monotonic() < self._refuse_until:
                    body = _ERROR.format(code=self._code, message=f"{self._code}: {self._status}").encode()
                    lines = [f"HTTP/1.1 {self._status} Refused", "Content-Type: application/xml"]
                    lines += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
                    client.sendall("\r\n".join(lines).encode() + (b"" if head.startswith(b"HEAD") else body))
                    return
                if not self._pass_on(head, server):
                    return

    def _pass_on(self, piece: bytes, server: socket.socket) -> bool:
        with self._lock:
            if self._break_after >= 0:
                self._break_after -= len(piece)
                if self._break_after < 0:
                    self._break_after = 0
                    return False
        self._wait(len(piece))
        server.sendall(piece)
        return True

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE):
                self._wait(len(piece))
                target.sendall(piece)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def _wait(self, count: int) -> None:
        if self._bandwidth:
            time.sleep(count / self._bandwidth)
