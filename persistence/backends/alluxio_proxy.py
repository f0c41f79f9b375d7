"""Alluxio over HTTP: the `alluxio` package's client with the options, timeouts and errors that it lacks."""

from __future__ import annotations

import errno
import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import requests
from alluxio import Client, exceptions

from springline.persistence.backends.upload import Upload
from springline.persistence.errors import StorageFullError, StorageUnavailableError

_CONNECT_TIMEOUT, _READ_TIMEOUT = 10, 30  # seconds; a dead worker is detected within them
_CHUNK = 1 << 20
_MIN_BLOCK_BYTES, _MAX_BLOCK_BYTES = 4096, 64 << 20  # bytes of a block
_OUT_OF_SPACE = ("RESOURCE_EXHAUSTED", "out of space", "no space", "failed to allocate", "Not enough space")


@dataclass(frozen=True)
class Options:
    """The options of one call, by their names in the REST interface."""

    fields: dict[str, Any]

    def json(self) -> dict[str, Any]:
        """Return the fields, as the `alluxio` package sends them."""
        return self.fields


# None of our files comes from Alluxio's own under storage, so its metadata is never loaded.
_NO_METADATA_LOAD = {"loadMetadataType": "NEVER"}
# A file awaits persistence until it is deleted, so it is neither evicted nor persisted.
_NEVER_EVICT = {"writeType": "ASYNC_THROUGH", "persistenceWaitTime": -1, "recursive": True}


@dataclass(frozen=True, slots=True, order=True)
class Worker:
    """The address of a worker: the port that serves blocks, and the port of its web interface."""

    host: str
    data_port: int
    web_port: int

    @property
    def name(self) -> str:
        """The unique name of the worker."""
        return f"{self.host}:{self.data_port}"


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a file: its number, its size in bytes, and the workers that hold it."""

    number: int
    bytes: int
    workers: tuple[Worker, ...]


@dataclass(frozen=True, slots=True)
class AlluxioFileStatus:
    """What Alluxio's master knows of a file or folder."""

    name: str
    is_folder: bool
    bytes: int
    is_complete: bool
    awaits_persist: bool  # to be persisted, forever if it is one of ours: until then it is not evicted
    is_persisted: bool
    blocks: tuple[Block, ...]

    @property
    def is_lost(self) -> bool:
        """Whether some of its bytes are lost: no worker has the block, and no under storage the file."""
        available_bytes = sum(block.bytes for block in self.blocks if block.workers)
        return not self.is_folder and not self.is_persisted and available_bytes < self.bytes

    @staticmethod
    def parse(fields: dict[str, Any]) -> AlluxioFileStatus:
        """Parse the master's description of one file or folder."""
        blocks = []
        for info in fields["fileBlockInfos"]:
            block = info["blockInfo"]
            addresses = [location["workerAddress"] for location in block["locations"]]
            workers = tuple(Worker(a["host"], a["dataPort"], a["webPort"]) for a in addresses)
            blocks.append(Block(block["blockId"], block["length"], workers))
        return AlluxioFileStatus(
            fields["name"], fields["folder"], fields["length"], fields["completed"],
            fields["persistenceState"] == "TO_BE_PERSISTED", fields["persisted"], tuple(blocks),
        )  # fmt: skip


class AlluxioProxy(Client):
    """Client of one of Alluxio's proxies; `server` is the name of that Alluxio in errors."""

    def __init__(self, url: str, *, server: str, ca_bundle: str = "") -> None:
        super().__init__(url, 0, timeout=(_CONNECT_TIMEOUT, _READ_TIMEOUT))
        self.session.verify = ca_bundle or True
        self.url = url.rstrip("/")
        self.host_name = urlsplit(url).hostname or ""
        self.server = server
        self._ca_bundle = ca_bundle

    def _url(self, url_path: str) -> str:
        return f"{self.url}{url_path}"

    def __repr__(self) -> str:
        return f"AlluxioProxy({self.url!r})"

    def status(self, path: str) -> AlluxioFileStatus:
        """Return the status of `path`; raises FileNotFoundError."""
        with self._translate_errors(path):
            return AlluxioFileStatus.parse(
                self._post(self._paths_url(quote(path), "get-status"), Options(_NO_METADATA_LOAD)).json()
            )

    def list_folder(self, path: str) -> list[AlluxioFileStatus]:
        """Return the content of the folder `path`; raises FileNotFoundError if it is not a folder."""
        with self._translate_errors(path):
            entries = self._post(self._paths_url(quote(path), "list-status"), Options(_NO_METADATA_LOAD)).json()
            if len(entries) == 1 and entries[0]["path"] == path:
                raise _not_found_error(f"{self.server}{path}")
            return [AlluxioFileStatus.parse(fields) for fields in entries]

    def remove(self, path: str) -> None:
        """Remove `path`, if it exists."""
        with suppress(FileNotFoundError), self._translate_errors(path):
            self.delete(quote(path), Options({"recursive": True}))

    def read_chunks(self, path: str, size: int) -> Iterator[bytes]:
        """Yield the `size` bytes of the file at `path`, in chunks."""
        with self._translate_errors(path):
            stream = self.open_file(quote(path), Options({}))
            try:
                remaining = size
                with self.session.post(
                    self._streams_url(stream, "read"), stream=True, timeout=self.timeout
                ) as response:
                    _raise_for_status(response.status_code, response.content if not response.ok else b"")
                    for chunk in response.iter_content(_CHUNK):
                        remaining -= len(chunk)
                        yield chunk
                if remaining:
                    raise StorageUnavailableError(
                        f"{self.server}{path} ended {remaining:,} bytes too early: did a worker die?"
                    )
            finally:
                self._close(stream)

    def open_upload(self, path: str, size: int) -> ProxyUpload:
        """Create a file of `size` bytes at `path` and open it for writing; parent folders are created."""
        with self._translate_errors(path):
            options = Options({**_NEVER_EVICT, "blockSizeBytes": _block_size_for(size)})
            return ProxyUpload(self, path, self.create_file(quote(path), options))

    def _close(self, stream: int) -> None:
        with suppress(exceptions.AlluxioError, exceptions.HTTPError, ValueError, KeyError):
            self.close(stream)

    @contextmanager
    def _translate_errors(self, path: str) -> Iterator[None]:
        """Translate errors of Alluxio and the network to this package's errors, naming server and path."""
        where = f"{self.server}{path}"
        try:
            yield
        except exceptions.NotFoundError as error:
            raise _not_found_error(where) from error
        except exceptions.AlreadyExistsError as error:
            raise FileExistsError(errno.EEXIST, "it already exists", where) from error
        except exceptions.AlluxioError as error:
            raise translate_alluxio_error(error, where) from error
        except (exceptions.HTTPError, requests.RequestException, http.client.HTTPException, OSError) as error:
            if isinstance(error, (FileNotFoundError, FileExistsError)):
                raise
            raise StorageUnavailableError(
                f"{where}: the proxy at {self.url} does not answer ({type(error).__name__}); is Alluxio running?"
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise StorageUnavailableError(f"{where}: {self.url} answers, but not as Alluxio's proxy does") from error


class ProxyUpload:
    """A file that is being written over a proxy."""

    def __init__(self, proxy: AlluxioProxy, path: str, stream: int) -> None:
        self._proxy = proxy
        self._path = path
        self._stream = stream
        with self._translate_errors():
            self._upload = Upload(
                "POST", proxy._streams_url(stream, "write"), seconds=_READ_TIMEOUT, ca_bundle=proxy._ca_bundle
            )

    def write(self, chunk: bytes) -> None:
        """Send the next bytes."""
        with self._translate_errors():
            try:
                self._upload.write(chunk)
            except ConnectionError:
                _raise_for_status(*self._upload.read_response())  # it stopped reading, and has sent the reason
                raise

    def close(self) -> None:
        """Complete the file."""
        with self._translate_errors():
            _raise_for_status(*self._upload.finish())
            self._proxy.close(self._stream)

    def abandon(self) -> None:
        """Remove what was written of it."""
        self._upload.abandon()
        self._proxy._close(self._stream)
        with suppress(StorageUnavailableError):
            self._proxy.remove(self._path)

    def _translate_errors(self) -> Any:
        return self._proxy._translate_errors(self._path)


def _block_size_for(size: int) -> int:
    """Return a block size such that a worker, which reserves whole blocks, reserves no more than the file needs."""
    return max(-(-size // -(-max(size, 1) // _MAX_BLOCK_BYTES)), _MIN_BLOCK_BYTES)


def _raise_for_status(status: int, body: bytes) -> None:
    if status != http.client.OK:
        payload = json.loads(body)
        raise exceptions.new_alluxio_exception(payload["statusCode"], payload["message"])


def _not_found_error(where: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "no such file or folder", where)


def translate_alluxio_error(error: exceptions.AlluxioError, where: str) -> Exception:
    """Return the error of this package for an error of Alluxio; a pure function."""
    line = (str(error.message).strip().splitlines() or [""])[0]
    if error.status == "RESOURCE_EXHAUSTED" or any(word.lower() in line.lower() for word in _OUT_OF_SPACE):
        return StorageFullError(
            f"{where}: Alluxio's workers are full: {line}; set SPRINGLINE_CACHE_CAPACITY below their capacity"
        )
    return StorageUnavailableError(f"{where}: {error.status}: {line}")
