"""Alluxio over HTTP: the `alluxio` package's client with the options, time-outs and errors that it lacks."""

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

_CONNECT, _ANSWER = 10, 30  # seconds; a worker that died is found out within them
_CHUNK = 1 << 20
_SMALLEST, _LARGEST = 4096, 64 << 20  # bytes of a block
_OUT_OF_ROOM = ("RESOURCE_EXHAUSTED", "out of space", "no space", "failed to allocate", "Not enough space")


@dataclass(frozen=True)
class Options:
    """The options of one call, by the names that the REST interface has for them."""

    fields: dict[str, Any]

    def json(self) -> dict[str, Any]:
        """What the `alluxio` package sends."""
        return self.fields


# Nothing of ours comes from Alluxio's own under storage, so it is never asked for names.
_NAMES = {"loadMetadataType": "NEVER"}
# It waits to be persisted from its creation until it is deleted, so nobody evicts it and nobody persists it.
_KEPT = {"writeType": "ASYNC_THROUGH", "persistenceWaitTime": -1, "recursive": True}


@dataclass(frozen=True, slots=True, order=True)
class Worker:
    """A worker by its address: where it serves blocks, and where it answers questions."""

    host: str
    data_port: int
    web_port: int

    @property
    def name(self) -> str:
        """How it is told from the others."""
        return f"{self.host}:{self.data_port}"


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a file: its number, its size in bytes, and the workers that hold it."""

    number: int
    bytes: int
    workers: tuple[Worker, ...]


@dataclass(frozen=True, slots=True)
class Status:
    """What Alluxio's master knows of a file or folder."""

    name: str
    folder: bool
    bytes: int
    completed: bool
    waits: bool  # to be persisted, for ever if it is one of ours: until then it is not evicted
    persisted: bool
    blocks: tuple[Block, ...]

    @property
    def lost(self) -> bool:
        """Some of its bytes are nowhere: no worker has the block, and no under storage the file."""
        held = sum(block.bytes for block in self.blocks if block.workers)
        return not self.folder and not self.persisted and held < self.bytes

    @staticmethod
    def parse(told: dict[str, Any]) -> Status:
        """Read what the master says of one file or folder."""
        blocks = []
        for info in told["fileBlockInfos"]:
            block = info["blockInfo"]
            addresses = [location["workerAddress"] for location in block["locations"]]
            workers = tuple(Worker(a["host"], a["dataPort"], a["webPort"]) for a in addresses)
            blocks.append(Block(block["blockId"], block["length"], workers))
        return Status(
            told["name"], told["folder"], told["length"], told["completed"],
            told["persistenceState"] == "TO_BE_PERSISTED", told["persisted"], tuple(blocks),
        )  # fmt: skip


class AlluxioProxy(Client):
    """Asks one of Alluxio's proxies; `server` is how errors call the Alluxio behind it."""

    def __init__(self, url: str, *, server: str, ca_bundle: str = "") -> None:
        super().__init__(url, 0, timeout=(_CONNECT, _ANSWER))
        self.session.verify = ca_bundle or True
        self.url = url.rstrip("/")
        self.host_name = urlsplit(url).hostname or ""
        self.server = server
        self._ca_bundle = ca_bundle

    def _url(self, url_path: str) -> str:
        return f"{self.url}{url_path}"

    def __repr__(self) -> str:
        return f"AlluxioProxy({self.url!r})"

    def status(self, path: str) -> Status:
        """What is at `path`; raises FileNotFoundError."""
        with self._speaking_of(path):
            return Status.parse(self._post(self._paths_url(quote(path), "get-status"), Options(_NAMES)).json())

    def listing(self, path: str) -> list[Status]:
        """What lies in the folder `path`; raises FileNotFoundError if it is none."""
        with self._speaking_of(path):
            found = self._post(self._paths_url(quote(path), "list-status"), Options(_NAMES)).json()
            if len(found) == 1 and found[0]["path"] == path:
                raise _no_such(f"{self.server}{path}")
            return [Status.parse(told) for told in found]

    def move(self, old: str, new: str) -> None:
        """Rename, never over what is at `new`; the folders above are made."""
        above = new.rpartition("/")[0]
        with self._speaking_of(above):
            self.create_directory(quote(above), Options({"recursive": True, "allowExists": True}))
        with self._speaking_of(f"{old} -> {new}"):
            self.rename(quote(old), new, Options({}))

    def remove(self, path: str) -> None:
        """Remove what is at `path`, if anything is."""
        with suppress(FileNotFoundError), self._speaking_of(path):
            self.delete(quote(path), Options({"recursive": True}))

    def bytes_of(self, path: str, size: int) -> Iterator[bytes]:
        """The `size` bytes of the file at `path`, in chunks."""
        with self._speaking_of(path):
            stream = self.open_file(quote(path), Options({}))
            try:
                left = size
                with self.session.post(
                    self._streams_url(stream, "read"), stream=True, timeout=self.timeout
                ) as response:
                    _checked(response.status_code, response.content if not response.ok else b"")
                    for chunk in response.iter_content(_CHUNK):
                        left -= len(chunk)
                        yield chunk
                if left:
                    raise StorageUnavailableError(
                        f"{self.server}{path} ended {left:,} bytes too early: did a worker die?"
                    )
            finally:
                self._close(stream)

    def created(self, path: str, size: int) -> Writing:
        """A new file of `size` bytes at `path`, to be written; the folders above are made."""
        with self._speaking_of(path):
            options = Options({**_KEPT, "blockSizeBytes": _block_for(size)})
            return Writing(self, path, self.create_file(quote(path), options))

    def _close(self, stream: int) -> None:
        with suppress(exceptions.AlluxioError, exceptions.HTTPError, ValueError, KeyError):
            self.close(stream)

    @contextmanager
    def _speaking_of(self, path: str) -> Iterator[None]:
        """Turn what Alluxio and the network say into this package's errors, naming server and path."""
        where = f"{self.server}{path}"
        try:
            yield
        except exceptions.NotFoundError as error:
            raise _no_such(where) from error
        except exceptions.AlreadyExistsError as error:
            raise FileExistsError(errno.EEXIST, "it is there already", where) from error
        except exceptions.AlluxioError as error:
            raise refusal_of_alluxio(error, where) from error
        except (exceptions.HTTPError, requests.RequestException, http.client.HTTPException, OSError) as error:
            if isinstance(error, (FileNotFoundError, FileExistsError)):
                raise
            raise StorageUnavailableError(
                f"{where}: the proxy at {self.url} does not answer ({type(error).__name__}); is Alluxio running?"
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise StorageUnavailableError(f"{where}: {self.url} answers, but not as Alluxio's proxy does") from error


class Writing:
    """A file that is being written through the proxy."""

    def __init__(self, proxy: AlluxioProxy, path: str, stream: int) -> None:
        self._proxy = proxy
        self._path = path
        self._stream = stream
        with self._speaking():
            self._upload = Upload(
                "POST", proxy._streams_url(stream, "write"), seconds=_ANSWER, ca_bundle=proxy._ca_bundle
            )

    def write(self, chunk: bytes) -> None:
        """Send the next bytes."""
        with self._speaking():
            try:
                self._upload.write(chunk)
            except ConnectionError:
                _checked(*self._upload.answer())  # it stopped listening: it has said why
                raise

    def close(self) -> None:
        """Make it whole."""
        with self._speaking():
            _checked(*self._upload.finish())
            self._proxy.close(self._stream)

    def abandon(self) -> None:
        """Remove what was written of it."""
        self._upload.abandon()
        self._proxy._close(self._stream)
        with suppress(StorageUnavailableError):
            self._proxy.remove(self._path)

    def _speaking(self) -> Any:
        return self._proxy._speaking_of(self._path)


def _block_for(size: int) -> int:
    """A block's size so that a worker, which reserves whole blocks, reserves no more than the file needs."""
    return max(-(-size // -(-max(size, 1) // _LARGEST)), _SMALLEST)


def _checked(status: int, answer: bytes) -> None:
    if status != http.client.OK:
        told = json.loads(answer)
        raise exceptions.new_alluxio_exception(told["statusCode"], told["message"])


def _no_such(where: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "no such file or folder", where)


def refusal_of_alluxio(error: exceptions.AlluxioError, where: str) -> Exception:
    """The error of this package for what Alluxio says; pure."""
    line = (str(error.message).strip().splitlines() or [""])[0]
    if error.status == "RESOURCE_EXHAUSTED" or any(word.lower() in line.lower() for word in _OUT_OF_ROOM):
        return StorageFullError(
            f"{where}: Alluxio's workers have no room: {line}; is SPRINGLINE_CACHE_CAPACITY below what they hold?"
        )
    return StorageUnavailableError(f"{where}: {error.status}: {line}")
