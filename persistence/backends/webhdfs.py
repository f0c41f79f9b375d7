"""HDFS over HTTP: the `hdfs` package's client, with names taken as they stand and errors that say what to do next."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from getpass import getuser
from typing import Any

import requests
from hdfs import Client, HdfsError
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from springline.persistence.backends.listing import Entry
from springline.persistence.errors import StorageFullError, StorageUnavailableError
from springline.persistence.text.redaction import watch_over

# The same time-outs bound the sending of a body, so the first is not below ten seconds.
_SECONDS = (10, 30)
_NO_ROOM = re.compile(r"could only be (written|replicated) to \d+")


class WebHdfs(Client):
    """Asks a NameNode over HTTP; `server` is how errors call it.

    `url` may hold several addresses, `;` between them, for a NameNode and its standby.
    """

    def __init__(self, url: str, *, server: str, user: str = "", token: str = "", ca_bundle: str = "") -> None:
        for library in ("urllib3.connectionpool", "urllib3.util.retry"):
            watch_over(library)  # they log addresses, and the token is part of one
        session = requests.Session()
        session.params = {"delegation": token} if token else {"user.name": user or getuser()}
        session.verify = ca_bundle or True
        again = HTTPAdapter(max_retries=Retry(total=None, connect=2, read=0, redirect=5, backoff_factor=0.2))
        session.mount("http://", again)
        session.mount("https://", again)
        super().__init__(url, timeout=_SECONDS, session=session)
        self.server = server

    def resolve(self, hdfs_path: str) -> str:
        """Every path is absolute already, and `#LATEST` is a name like any other."""
        return hdfs_path

    def is_there(self, path: str) -> bool:
        """Whether there is anything at `path`."""
        try:
            with self.speaking_of(path):
                self.status(path)
        except FileNotFoundError:
            return False
        return True

    def entries(self, path: str) -> Sequence[Entry]:
        """What lies in the folder `path`; raises FileNotFoundError if it is none."""
        with self.speaking_of(path):
            found = self._list_status(path).json()["FileStatuses"]["FileStatus"]
        if [status["pathSuffix"] for status in found] == [""]:
            raise FileNotFoundError(errno.ENOENT, "no such folder", f"{self.server}{path}")
        return [Entry(s["pathSuffix"], s["type"] == "DIRECTORY", s["length"]) for s in found]

    def move(self, old: str, new: str) -> None:
        """Rename, never into or over what is at `new`; the folders above are made."""
        with self.speaking_of(new):
            self.makedirs(new.rpartition("/")[0])
        with self.speaking_of(f"{old} -> {new}"):
            # Without options WebHDFS moves into a folder that is there.
            self._rename(old, destination=new, renameoptions="NONE")

    def remove(self, path: str) -> bool:
        """Remove what is at `path`; False if nothing is."""
        with self.speaking_of(path):
            return bool(self.delete(path, recursive=True))

    def used(self, path: str) -> int:
        """Bytes of all files below `path`, each counted once."""
        try:
            with self.speaking_of(path):
                return int(self.content(path)["length"])
        except FileNotFoundError:
            return 0

    def block_size(self, path: str) -> int:
        """The size of the blocks of a file in bytes."""
        with self.speaking_of(path):
            return int(self.status(path)["blockSize"])

    def sum_of(self, path: str) -> Mapping[str, Any]:
        """The checksum of a whole file as its DataNodes work it out: algorithm and bytes."""
        with self.speaking_of(path):
            told: Mapping[str, Any] = self.checksum(path)
            return told

    def get(self, path: str) -> bytes:
        """The bytes of one small file."""
        with self.speaking_of(path), self.read(path) as stream:
            return bytes(stream.read())

    def put(self, path: str, content: bytes) -> None:
        """Write one small file, over what was there."""
        with self.speaking_of(path):
            self.write(path, data=content, overwrite=True)

    @contextmanager
    def speaking_of(self, path: str) -> Iterator[None]:
        """Turn what HDFS and the network say into this package's errors, naming server and path."""
        try:
            yield
        except HdfsError as error:
            raise refusal(error.exception or "", str(error), f"{self.server}{path}") from error
        except requests.RequestException as error:
            raise StorageUnavailableError(
                f"{self.server}{path}: WebHDFS at {self.url} does not answer ({type(error).__name__}); is HDFS running?"
            ) from error
        except (KeyError, ValueError) as error:
            raise StorageUnavailableError(
                f"{self.server}{path}: {self.url} answers, but not as WebHDFS does"
            ) from error


def refusal(exception: str, message: str, where: str) -> Exception:
    """The error of this package for an exception of HDFS, by the exception's class name; pure."""
    name = re.split(r"[.$]", exception)[-1]
    line = (message.strip().splitlines() or [name])[0]
    if name == "FileNotFoundException":
        return FileNotFoundError(errno.ENOENT, "no such file or folder", where)
    if name in ("FileAlreadyExistsException", "AlreadyBeingCreatedException"):
        return FileExistsError(errno.EEXIST, "it is there already", where)
    if name.endswith("QuotaExceededException"):
        return StorageFullError(f"{where}: its quota is used up: {line}")
    if _NO_ROOM.search(message):
        return StorageFullError(f"{where}: no DataNode has room, or none is there: {line}")
    if name == "SafeModeException" or "safe mode" in message.lower():
        return StorageUnavailableError(
            f"{where}: HDFS is in safe mode and takes no writes; it leaves it when its DataNodes have reported, "
            "or by `hdfs dfsadmin -safemode leave`"
        )
    return StorageUnavailableError(f"{where}: {name or 'HDFS refused'}: {line}")
