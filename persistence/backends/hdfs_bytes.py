"""Reads and writes the bytes of HDFS files over HDFS's native protocol (hdfs-native), each step with a deadline."""

from __future__ import annotations

import os
import queue
import re
import threading
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Any, TypeVar

from hdfs_native import Client

from springline.persistence.backends.webhdfs import translate_hdfs_error
from springline.persistence.errors import StorageUnavailableError

_PACKETS_PER_CHUNK = 16  # packets per chunk
_STEP_TIMEOUT = 60.0  # timeout (s) of a step: a pipeline without its DataNode has recovered by then, or does not
_CONFIG = {
    # Otherwise it retries an unavailable NameNode for three minutes.
    "dfs.client.failover.max.attempts": "2",
    "dfs.client.socket-timeout": "10000",
    "dfs.client.block.write.replace-datanode-on-failure.best-effort": "true",
}
_RPC_ERROR = re.compile(r'^\w*RPCError\("(?P<exception>[\w.$]+)", "(?P<message>.*)"\)$', re.DOTALL)
_Result = TypeVar("_Result")


class HdfsBytes:
    """Reads and writes files of the HDFS at `server` (hdfs://host:port).

    As with every client of Hadoop, HADOOP_CONF_DIR says where Kerberos, SASL and a pair of NameNodes are
    configured, and HADOOP_TOKEN_FILE_LOCATION where tokens are; HADOOP_USER_NAME takes precedence over `user`.
    """

    def __init__(self, server: str, *, user: str = "", seconds: float = _STEP_TIMEOUT) -> None:
        self.server = server
        self._user = user
        self._seconds = seconds

    def read(self, path: str) -> Iterator[bytes]:
        """Yield the bytes of the file at `path`, in chunks."""
        reader = self.run_step(path, lambda: self._client().read(path))
        remaining = len(reader)
        stream = reader.read_range_stream(0, remaining)  # 1.5 times as fast as reads of a megabyte
        while remaining:
            chunk = self.run_step(path, lambda: _read_chunk(stream))
            if not chunk:
                raise StorageUnavailableError(f"{self.server}{path} ended {remaining:,} bytes too early")
            remaining -= len(chunk)
            yield chunk

    def read_range(self, path: str, start: int, size: int) -> bytes:
        """Return up to `size` bytes of the file at `path` from byte `start` on; fewer only at its end."""
        reader = self.run_step(path, lambda: self._client().read(path))
        count = max(0, min(size, len(reader) - start))
        return self.run_step(path, lambda: bytes(reader.read_range(start, count))) if count else b""

    def create(self, path: str) -> HdfsUpload:
        """Create the file `path` and open it for writing; parent folders are created."""
        return HdfsUpload(self, path, self.run_step(path, lambda: self._client().create(path)))

    def run_step(self, path: str, action: Callable[[], _Result]) -> _Result:
        """Return the result of `action`, or raise after the deadline; the action then continues in its thread."""
        answers: queue.SimpleQueue[tuple[_Result | None, Exception | None]] = queue.SimpleQueue()

        def run_action() -> None:
            try:
                answers.put((action(), None))
            except Exception as error:
                answers.put((None, error))

        threading.Thread(target=run_action, name=f"{self.server}{path}", daemon=True).start()
        try:
            answer, error = answers.get(timeout=self._seconds)
        except queue.Empty:
            raise StorageUnavailableError(
                f"{self.server}{path}: no answer in {self._seconds:.0f} s; are the NameNode and the DataNodes running?"
            ) from None
        if error is not None:
            raise _translate_error(error, f"{self.server}{path}") from error
        return answer  # type: ignore[return-value]

    def _client(self) -> Client:
        return _cached_client(self.server, self._user, os.getpid())


class HdfsUpload:
    """A file that is being written."""

    def __init__(self, content: HdfsBytes, path: str, writer: Any) -> None:
        self._content = content
        self._path = path
        self._writer = writer

    def write(self, chunk: bytes) -> None:
        """Send the next bytes."""
        self._content.run_step(self._path, lambda: self._writer.write(chunk))

    def close(self) -> None:
        """Complete the file: every replica has acknowledged every byte."""
        self._content.run_step(self._path, self._writer.close)


@cache
def _cached_client(server: str, user: str, process: int) -> Client:
    """Return one client per server and process, never released: its destructor can block forever on its own threads."""
    if user:  # the library has no other parameter for it
        os.environ.setdefault("HADOOP_USER_NAME", user)
    return Client(server, _CONFIG)


def _read_chunk(stream: Iterator[bytes]) -> bytes:
    """Read about a megabyte from pieces of 64 kB."""
    return b"".join(islice(stream, _PACKETS_PER_CHUNK))


def _translate_error(error: Exception, where: str) -> Exception:
    """Return the error of this package for the text of a library error; a pure function."""
    if isinstance(error, FileNotFoundError):
        return translate_hdfs_error("FileNotFoundException", str(error), where)
    if isinstance(error, FileExistsError):
        return translate_hdfs_error("FileAlreadyExistsException", str(error), where)
    if (match := _RPC_ERROR.match(str(error))) is None:
        return translate_hdfs_error(type(error).__name__, str(error), where)
    return translate_hdfs_error(match["exception"], match["message"].replace("\\n", "\n").replace('\\"', '"'), where)
