"""Bootstrap of a Spark worker that connects first and imports afterwards, since imports are slow on a busy machine.

Spark gives the worker that plans the rounds of a stage 10 s to connect, which is not configurable. PySpark's runner
imports all its modules first: half a second on an idle core, but 20 s if 40 processes share one. The handshake here is
that of `pyspark.worker_util`, over TCP; sockets of another kind are left to PySpark.
"""

from __future__ import annotations

import os
import runpy
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, cast

_PORT, _SECRET = "PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SECRET"
_HANDSHAKE_SECONDS = 15.0


def main() -> None:
    """Run the Spark module given as argument as the main module, with the connection established."""
    module = sys.argv.pop(1)
    if _PORT in os.environ:
        connection = _connect(int(os.environ[_PORT]), os.environ[_SECRET])

        from pyspark import worker_util

        worker_util.get_sock_file_to_executor = lambda timeout=None: _connection_context(connection)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _connect(port: int, secret: str) -> IO[bytes]:
    """Connect and authenticate to Spark; raises `OSError`."""
    host = "::1" if os.environ.get("SPARK_PREFER_IPV6", "").lower() == "true" else "127.0.0.1"
    connection = socket.create_connection((host, port), _HANDSHAKE_SECONDS)
    file = cast("IO[bytes]", connection.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", "65536"))))
    secret_bytes = secret.encode()
    file.write(struct.pack(f"!i{len(secret_bytes)}s", len(secret_bytes), secret_bytes))
    file.flush()
    (length,) = struct.unpack("!i", file.read(4))
    if (answer := file.read(length)) != b"ok":
        raise ConnectionError(f"Spark does not take its own secret: {answer!r}")
    connection.settimeout(None)
    file.write(struct.pack("!i", os.getpid()))
    file.flush()
    return file


@contextmanager
def _connection_context(connection: IO[bytes]) -> Iterator[IO[bytes]]:
    with connection:
        yield connection


if __name__ == "__main__":
    main()
