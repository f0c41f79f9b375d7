"""A worker of Spark's that connects at once, and imports after: what it imports takes long on a busy machine.

Spark gives what plans the rounds of a stage 10 s until it connects, which cannot be set. PySpark's runner of it imports
all that it needs first: half a second of a core, but 20 s where 40 processes share one. Its handshake is that of
`pyspark.worker_util`, over TCP; a socket of another kind is left to that.
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
    """Run the module of Spark's that is named, as its own main module, with the connection made."""
    module = sys.argv.pop(1)
    if _PORT in os.environ:
        connection = _connect(int(os.environ[_PORT]), os.environ[_SECRET])

        from pyspark import worker_util

        worker_util.get_sock_file_to_executor = lambda timeout=None: _held(connection)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _connect(port: int, secret: str) -> IO[bytes]:
    """The connection to Spark, which knows now who this is; raises `OSError`."""
    host = "::1" if os.environ.get("SPARK_PREFER_IPV6", "").lower() == "true" else "127.0.0.1"
    connection = socket.create_connection((host, port), _HANDSHAKE_SECONDS)
    file = cast("IO[bytes]", connection.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", "65536"))))
    told = secret.encode()
    file.write(struct.pack(f"!i{len(told)}s", len(told), told))
    file.flush()
    (length,) = struct.unpack("!i", file.read(4))
    if (answer := file.read(length)) != b"ok":
        raise ConnectionError(f"Spark does not take its own secret: {answer!r}")
    connection.settimeout(None)
    file.write(struct.pack("!i", os.getpid()))
    file.flush()
    return file


@contextmanager
def _held(connection: IO[bytes]) -> Iterator[IO[bytes]]:
    with connection:
        yield connection


if __name__ == "__main__":
    main()
