"""HDFS by its own protocol as a file system of fsspec (hdfs-native); each step has a deadline, and an error that helps.

What the library lacks is asked over WebHDFS: the checksum of a file.
"""

from __future__ import annotations

import errno
import logging
import os
import queue
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from getpass import getuser
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import quote

import requests
from fsspec import AbstractFileSystem
from hdfs_native import Client, WriteOptions
from hdfs_native.fsspec import HdfsFileSystem as LibraryFileSystem

from springline.persistence.errors import StorageFullError, StorageUnavailableError
from springline.persistence.text.redaction import redact_logger

logger = logging.getLogger("springline.hdfs")

_PACKETS_PER_CHUNK = 16  # packets per chunk
_STEP_TIMEOUT = 60.0  # timeout (s) of a step: a pipeline without its DataNode has recovered by then, or does not
_ASK_TIMEOUT = 30.0  # timeout (s) of a step that asks the NameNode alone
_WEB_TIMEOUTS = (10, 30)  # to connect, and until an answer
_CONFIG = {
    # Otherwise it retries an unavailable NameNode for three minutes.
    "dfs.client.failover.max.attempts": "2",
    "dfs.client.failover.sleep.base.millis": "100",
    "dfs.client.failover.sleep.max.millis": "400",
    "dfs.client.socket-timeout": "10000",
    "dfs.client.block.write.replace-datanode-on-failure.best-effort": "true",
}
_RPC_ERROR = re.compile(r'^\w*RPCError\("(?P<exception>[\w.$]+)", "(?P<message>.*)"\)$', re.DOTALL)
_NO_DATANODE_SPACE = re.compile(r"could only be (written|replicated) to \d+")
_Result = TypeVar("_Result")


class HdfsFileSystem(LibraryFileSystem):  # type: ignore[misc]
    """The HDFS at `server` (hdfs://host:port); paths are taken literally.

    As with every client of Hadoop, HADOOP_CONF_DIR says where Kerberos, SASL and a pair of NameNodes are
    configured, and HADOOP_TOKEN_FILE_LOCATION where tokens are; HADOOP_USER_NAME takes precedence over `user`.
    """

    cachable = False

    def __init__(self, server: str, *, user: str = "") -> None:
        AbstractFileSystem.__init__(self, use_listings_cache=False)  # the library's would connect
        self.server = server
        self.client: Any = _SteppedClient(self)
        self._user = user

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path  # the library would cut a name at # and ?

    def chunks(self, path: str) -> Iterator[bytes]:
        """Yield the bytes of the file at `path`, in chunks."""
        reader = self.client.read(path)
        remaining = len(reader)
        stream = reader.read_range_stream(0, remaining)  # 1.5 times as fast as reads of a megabyte
        while remaining:
            chunk = self.run_step(path, lambda: _read_chunk(stream))
            if not chunk:
                raise StorageUnavailableError(f"{self.server}{path} ended {remaining:,} bytes too early")
            remaining -= len(chunk)
            yield chunk

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """Return the bytes of the file at `path` from `start` to `end`, or to its end if that is before."""
        reader = self.client.read(path)
        first, last = start or 0, len(reader) if end is None else min(end, len(reader))
        return self.run_step(path, lambda: bytes(reader.read_range(first, last - first))) if first < last else b""

    def pipe_file(self, path: str, value: bytes, **_: Any) -> None:
        """Write a file, in the place of one that is there."""
        options = WriteOptions()
        options.overwrite = True
        upload = HdfsUpload(self, path, self.client.create(path, write_options=options))
        upload.write(value)
        upload.close()

    def run_step(self, path: str, action: Callable[[], _Result], *, seconds: float = _STEP_TIMEOUT) -> _Result:
        """Return the result of `action`, or raise after so many seconds; the action then continues in its thread."""
        answers: queue.SimpleQueue[tuple[_Result | None, Exception | None]] = queue.SimpleQueue()

        def run_action() -> None:
            try:
                answers.put((action(), None))
            except Exception as error:
                answers.put((None, error))

        threading.Thread(target=run_action, name=f"{self.server}{path}", daemon=True).start()
        try:
            answer, error = answers.get(timeout=seconds)
        except queue.Empty:
            raise StorageUnavailableError(
                f"{self.server}{path}: no answer in {seconds:.0f} s; are the NameNode and the DataNodes running?"
            ) from None
        if error is not None:
            raise _translate_error(error, f"{self.server}{path}") from error
        return answer  # type: ignore[return-value]

    def library_client(self) -> Client:
        """The library's client of this process."""
        return _cached_client(self.server, self._user, os.getpid())


class _SteppedClient:
    """The library's client, whose calls have deadlines; lists are complete when they are returned."""

    def __init__(self, filesystem: HdfsFileSystem) -> None:
        self._filesystem = filesystem

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(path: str, *arguments: Any, **options: Any) -> Any:
            def action() -> Any:
                result = getattr(self._filesystem.library_client(), name)(path, *arguments, **options)
                return list(result) if name == "list_status" else result

            return self._filesystem.run_step(path, action, seconds=_ASK_TIMEOUT)

        return call


class HdfsUpload:
    """A file that is being written."""

    def __init__(self, filesystem: HdfsFileSystem, path: str, writer: Any) -> None:
        self._filesystem = filesystem
        self._path = path
        self._writer = writer

    def write(self, chunk: bytes) -> None:
        """Send the next bytes."""
        self._filesystem.run_step(self._path, lambda: self._writer.write(chunk))

    def close(self) -> None:
        """Complete the file: every replica has acknowledged every byte."""
        self._filesystem.run_step(self._path, self._writer.close)

    def discard(self) -> None:
        """Give it up: it stays partial, to be deleted."""


class WebHdfs:
    """The checksums of files, over HTTP from the NameNodes at `url`, separated by `;`."""

    def __init__(self, url: str, *, user: str = "", token: str = "", ca_bundle: str = "") -> None:
        redact_logger("urllib3.connectionpool")  # it logs addresses, which contain the token
        self._urls = [each.strip().rstrip("/") for each in url.split(";") if each.strip()]
        self._params = {"delegation": token} if token else {"user.name": user or getuser()}
        self._verify: str | bool = ca_bundle or True

    def file_checksum(self, path: str) -> Mapping[str, str]:
        """Return the checksum of a whole file as its DataNodes compute it, `algorithm` and `bytes`; else nothing.

        A copy is then verified by reading it back, so whatever is wrong with an answer ends nothing.
        """
        reason = "no address"
        for url in self._urls:
            try:
                answer = requests.get(
                    f"{url}/webhdfs/v1{quote(path)}", params={"op": "GETFILECHECKSUM", **self._params},
                    timeout=_WEB_TIMEOUTS, verify=self._verify,
                )  # fmt: skip
                checksum = answer.json()["FileChecksum"]
                bytes.fromhex(checksum["bytes"])
                return {"algorithm": str(checksum["algorithm"]), "bytes": checksum["bytes"]}
            except (requests.RequestException, ValueError, KeyError, TypeError) as error:
                reason = f"{url}: {type(error).__name__}"
        logger.warning("%s: read back, since WebHDFS returns no checksum of it (%s)", path, reason)
        return {}


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
    if isinstance(error, OSError):
        return StorageUnavailableError(f"{where}: HDFS does not answer ({error}); is it running?")
    if (match := _RPC_ERROR.match(str(error))) is None:
        return translate_hdfs_error(type(error).__name__, str(error), where)
    return translate_hdfs_error(match["exception"], match["message"].replace("\\n", "\n").replace('\\"', '"'), where)


def translate_hdfs_error(exception: str, message: str, where: str) -> Exception:
    """Return the error of this package for an exception of HDFS, by the exception's class name; a pure function."""
    name = re.split(r"[.$]", exception)[-1]
    line = (message.strip().splitlines() or [name])[0]
    if name == "FileNotFoundException":
        return FileNotFoundError(errno.ENOENT, "no such file or folder", where)
    if name in ("FileAlreadyExistsException", "AlreadyBeingCreatedException"):
        return FileExistsError(errno.EEXIST, "it already exists", where)
    if name.endswith("QuotaExceededException"):
        return StorageFullError(f"{where}: its quota is exhausted: {line}")
    if _NO_DATANODE_SPACE.search(message):
        return StorageFullError(f"{where}: no DataNode has free space, or none is running: {line}")
    if name == "SafeModeException" or "safe mode" in message.lower():
        return StorageUnavailableError(
            f"{where}: HDFS is in safe mode and rejects writes; wait until its DataNodes have reported, "
            "or run `hdfs dfsadmin -safemode leave`"
        )
    return StorageUnavailableError(f"{where}: {name or 'HDFS refused'}: {line}")
