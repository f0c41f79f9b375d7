"""The bytes of HDFS files, by HDFS's own protocol (hdfs-native), each step with a deadline."""

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

from springline.persistence.backends.webhdfs import refusal
from springline.persistence.errors import StorageUnavailableError

_PIECES = 16  # to a chunk
_SECONDS = 60.0  # of one step: a pipeline that lost its DataNode has mended itself by then, or does not
_CONFIG = {
    # Else it asks a NameNode that is down for three minutes.
    "dfs.client.failover.max.attempts": "2",
    "dfs.client.socket-timeout": "10000",
    "dfs.client.block.write.replace-datanode-on-failure.best-effort": "true",
}
_SAID = re.compile(r'^\w*RPCError\("(?P<exception>[\w.$]+)", "(?P<message>.*)"\)$', re.DOTALL)
_Answer = TypeVar("_Answer")


class HdfsBytes:
    """Reads and writes files of the HDFS at `server` (hdfs://host:port).

    As with every client of Hadoop, HADOOP_CONF_DIR says where Kerberos, SASL and a pair of NameNodes are
    configured, and HADOOP_TOKEN_FILE_LOCATION where tokens are; HADOOP_USER_NAME goes before `user`.
    """

    def __init__(self, server: str, *, user: str = "", seconds: float = _SECONDS) -> None:
        self.server = server
        self._user = user
        self._seconds = seconds

    def read(self, path: str) -> Iterator[bytes]:
        """The bytes of the file at `path`, in chunks."""
        reader = self.step(path, lambda: self._client().read(path))
        left = len(reader)
        stream = reader.read_range_stream(0, left)  # half as quick again as reads of a megabyte
        while left:
            chunk = self.step(path, lambda: _gathered(stream))
            if not chunk:
                raise StorageUnavailableError(f"{self.server}{path} ended {left:,} bytes too early")
            left -= len(chunk)
            yield chunk

    def create(self, path: str) -> Writing:
        """Open the new file `path` for writing; the folders above are made."""
        return Writing(self, path, self.step(path, lambda: self._client().create(path)))

    def step(self, path: str, do: Callable[[], _Answer]) -> _Answer:
        """What `do` answers, within the deadline; it is left behind if it takes longer."""
        answers: queue.SimpleQueue[tuple[_Answer | None, Exception | None]] = queue.SimpleQueue()

        def work() -> None:
            try:
                answers.put((do(), None))
            except Exception as error:
                answers.put((None, error))

        threading.Thread(target=work, name=f"{self.server}{path}", daemon=True).start()
        try:
            answer, error = answers.get(timeout=self._seconds)
        except queue.Empty:
            raise StorageUnavailableError(
                f"{self.server}{path}: no answer in {self._seconds:.0f} s; are the NameNode and the DataNodes running?"
            ) from None
        if error is not None:
            raise _told(error, f"{self.server}{path}") from error
        return answer  # type: ignore[return-value]

    def _client(self) -> Client:
        return _connected(self.server, self._user, os.getpid())


class Writing:
    """A file that is being written."""

    def __init__(self, content: HdfsBytes, path: str, writer: Any) -> None:
        self._content = content
        self._path = path
        self._writer = writer

    def write(self, chunk: bytes) -> None:
        """Send the next bytes."""
        self._content.step(self._path, lambda: self._writer.write(chunk))

    def close(self) -> None:
        """Make it whole: every replica has acknowledged every byte."""
        self._content.step(self._path, self._writer.close)


@cache
def _connected(server: str, user: str, process: int) -> Client:
    """One client a server and process, kept for ever: letting go of one can wait for ever for its own threads."""
    if user:  # there is no other way to tell the library
        os.environ.setdefault("HADOOP_USER_NAME", user)
    return Client(server, _CONFIG)


def _gathered(stream: Iterator[bytes]) -> bytes:
    """About a megabyte of what comes in pieces of 64 kB."""
    return b"".join(islice(stream, _PIECES))


def _told(error: Exception, where: str) -> Exception:
    """What the library says as text, as an error of this package; pure."""
    if isinstance(error, FileNotFoundError):
        return refusal("FileNotFoundException", str(error), where)
    if isinstance(error, FileExistsError):
        return refusal("FileAlreadyExistsException", str(error), where)
    if (said := _SAID.match(str(error))) is None:
        return refusal(type(error).__name__, str(error), where)
    return refusal(said["exception"], said["message"].replace("\\n", "\n").replace('\\"', '"'), where)
