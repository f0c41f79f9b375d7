"""HDFS over HTTP: the `hdfs` package's client, with names taken literally and errors that say what to do next."""

from __future__ import annotations

import errno
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from getpass import getuser
from typing import Any

import requests
from hdfs import Client, HdfsError
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from springline.persistence.backends.listing import FolderEntry
from springline.persistence.errors import StorageFullError, StorageUnavailableError
from springline.persistence.text.redaction import redact_logger

# The same timeouts apply to sending a body, so the first is at least ten seconds.
_TIMEOUTS = (10, 30)
_NO_DATANODE_SPACE = re.compile(r"could only be (written|replicated) to \d+")


class WebHdfs(Client):
    """Client of a NameNode over HTTP; `server` is its name in errors.

    `url` may contain several addresses, separated by `;`, for a NameNode and its standby.
    """

    def __init__(self, url: str, *, server: str, user: str = "", token: str = "", ca_bundle: str = "") -> None:
        for library in ("urllib3.connectionpool", "urllib3.util.retry"):
            redact_logger(library)  # they log addresses that contain the token
        session = requests.Session()
        session.params = {"delegation": token} if token else {"user.name": user or getuser()}
        session.verify = ca_bundle or True
        adapter = HTTPAdapter(max_retries=Retry(total=None, connect=2, read=0, redirect=5, backoff_factor=0.2))
        session.mount("http://", adapter)
        session.mount("https://", adapter)
        super().__init__(url, timeout=_TIMEOUTS, session=session)
        self.server = server

    def resolve(self, hdfs_path: str) -> str:
        """Return the path unchanged: it is absolute already, and `#LATEST` is an ordinary name here."""
        return hdfs_path

    def exists(self, path: str) -> bool:
        """Whether there is anything at `path`."""
        try:
            with self.translate_errors(path):
                self.status(path)
        except FileNotFoundError:
            return False
        return True

    def list_folder(self, path: str) -> Sequence[FolderEntry]:
        """Return the content of the folder `path`; raises FileNotFoundError if it is not a folder."""
        with self.translate_errors(path):
            statuses = self._list_status(path).json()["FileStatuses"]["FileStatus"]
        if [status["pathSuffix"] for status in statuses] == [""]:
            raise FileNotFoundError(errno.ENOENT, "no such folder", f"{self.server}{path}")
        return [FolderEntry(s["pathSuffix"], s["type"] == "DIRECTORY", s["length"]) for s in statuses]

    def remove(self, path: str) -> bool:
        """Remove what is at `path`; returns False if nothing is."""
        with self.translate_errors(path):
            return bool(self.delete(path, recursive=True))

    def used_bytes(self, path: str) -> int:
        """Return the bytes of all files below `path`, without replication."""
        try:
            with self.translate_errors(path):
                return int(self.content(path)["length"])
        except FileNotFoundError:
            return 0

    def block_size(self, path: str) -> int:
        """Return the block size of a file in bytes."""
        with self.translate_errors(path):
            return int(self.status(path)["blockSize"])

    def file_checksum(self, path: str) -> Mapping[str, Any]:
        """Return the checksum of a whole file as its DataNodes compute it: algorithm and bytes."""
        with self.translate_errors(path):
            fields: Mapping[str, Any] = self.checksum(path)
            return fields

    def get(self, path: str) -> bytes:
        """Return the bytes of one small file."""
        with self.translate_errors(path), self.read(path) as stream:
            return bytes(stream.read())

    def put(self, path: str, content: bytes) -> None:
        """Write one small file, overwriting an existing one."""
        with self.translate_errors(path):
            self.write(path, data=content, overwrite=True)

    def put_atomically(self, path: str, content: bytes) -> None:
        """Write one small file beside its place and rename it, so that readers find it whole or not at all."""
        partial = f"{path}.{uuid.uuid4().hex}"
        self.put(partial, content)
        with self.translate_errors(path):
            self._rename(partial, destination=path, renameoptions="OVERWRITE")

    @contextmanager
    def translate_errors(self, path: str) -> Iterator[None]:
        """Translate errors of HDFS and the network to this package's errors, naming server and path."""
        try:
            yield
        except HdfsError as error:
            raise translate_hdfs_error(error.exception or "", str(error), f"{self.server}{path}") from error
        except requests.RequestException as error:
            raise StorageUnavailableError(
                f"{self.server}{path}: WebHDFS at {self.url} does not answer ({type(error).__name__}); is HDFS running?"
            ) from error
        except (KeyError, ValueError) as error:
            raise StorageUnavailableError(
                f"{self.server}{path}: {self.url} answers, but not as WebHDFS does"
            ) from error


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
