"""The manifest of a copy: its files with sizes and checksums, and the generation that they are.

In the under-store it is the file `_springline.json` of a copy, written last: a copy exists when its manifest does. A
lost catalog is rebuilt from the manifests.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec
import xxhash

from springline.persistence.errors import DecodeError, InvalidPathError
from springline.persistence.model.codec import Codec
from springline.persistence.model.dataset import Call, Dataset, Origin, Ref, Strategy

FILE_NAME = "_springline.json"


@dataclass(frozen=True, slots=True, order=True)
class File:
    """One file of a generation.

    Args:
        name: below the generation's location, with `/` between folders.
        bytes: its size.
        checksum: of its bytes, xxh3 of 128 bits in hexadecimal; empty if it was not requested.

    Example:
        >>> File("part-0.parquet", 1_000).bytes
        1000
    """

    name: str
    bytes: int
    checksum: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of a generation, and one checksum over all of them.

    Args:
        files: sorted by name.

    Example:
        >>> manifest = Manifest((File("a", 3, "4f"), File("b", 4, "e0")))
        >>> manifest.bytes, len(manifest.checksum)
        (7, 32)
    """

    files: tuple[File, ...]

    @property
    def bytes(self) -> int:
        """Total bytes of all files."""
        return sum(file.bytes for file in self.files)

    @property
    def checksum(self) -> str:
        """One checksum (xxh3, 128 bits) over names, sizes and checksums of all files."""
        lines = "".join(f"{file.name}\t{file.bytes}\t{file.checksum}\n" for file in self.files)
        return xxhash.xxh3_128_hexdigest(os.fsencode(lines))


@dataclass(frozen=True, slots=True)
class _Document:
    """What is written: the names of files are percent-encoded, since they may be any bytes; `bytes` are the cache's."""

    path: str
    generation: int
    files: tuple[File, ...]
    checksum: str  # of all files, so that damage to the list shows
    bytes: int
    rows: int | None
    digest: str
    strategy: Strategy
    checkpoint: bool
    call: Call | None
    sources: tuple[str, ...]
    origin: Origin
    compute_seconds: float | None
    created_at: float
    report: Mapping[str, Any] | None


_CODEC: Codec[_Document] = Codec(
    _Document, 1, "the manifest of a copy", "rebuild the catalog with the version of Springline that persisted it"
)


def encode_manifest(dataset: Dataset, manifest: Manifest) -> bytes:
    """Encode the manifest of a copy of `dataset` that consists of the files of `manifest`, as indented JSON."""
    content = _Document(
        path=dataset.ref.path,
        generation=dataset.ref.generation,
        files=tuple(File(quote_from_bytes(os.fsencode(f.name)), f.bytes, f.checksum) for f in manifest.files),
        checksum=manifest.checksum,
        bytes=dataset.bytes,
        rows=dataset.rows,
        digest=dataset.digest,
        strategy=dataset.strategy,
        checkpoint=dataset.checkpoint,
        call=dataset.call,
        sources=tuple(map(str, dataset.sources)),
        origin=dataset.origin,
        compute_seconds=dataset.compute_seconds,
        created_at=dataset.created_at,
        report=dataset.report,
    )
    return msgspec.json.format(_CODEC.encode(content), indent=1)


def decode_manifest(content: bytes, *, where: str) -> tuple[Dataset, Manifest]:
    """Decode the manifest of the copy at `where`.

    Returns:
        The generation as it was when the copy was made, and the files of the copy.

    Raises:
        DecodeError: it cannot be read, or names something outside of its root; the error names `where`.
    """
    document = _CODEC.decode(content, f"{where}/{FILE_NAME}")
    try:
        ref, sources = Ref.parse(f"{document.path}@{document.generation}"), tuple(map(Ref.parse, document.sources))
        manifest = Manifest(tuple(sorted(File(_decode_name(f.name), f.bytes, f.checksum) for f in document.files)))
        if manifest.checksum != document.checksum:
            raise ValueError("its list of files does not match its checksum")
    except (ValueError, InvalidPathError) as error:
        raise DecodeError(f"{where}/{FILE_NAME}: the manifest of a copy cannot be read: {error}") from error
    dataset = Dataset(
        ref=ref,
        bytes=document.bytes,
        rows=document.rows,
        digest=document.digest,
        checksum=document.checksum,
        under_checksum=document.checksum,
        strategy=document.strategy,
        checkpoint=document.checkpoint,
        call=document.call,
        sources=sources,
        origin=document.origin,
        compute_seconds=document.compute_seconds,
        created_at=document.created_at,
        report=document.report,
    )
    return dataset, manifest


def require_free_names(names: Iterable[str], where: str) -> None:
    """Raise `InvalidPathError` if a file or folder at `where` has a name that a store needs for the manifest."""
    for name in names:
        if any(map(is_reserved, name.split("/"))):
            raise InvalidPathError(
                f"{where}: the name {name} is that of the manifest that Springline writes beside each copy; give it "
                "another"
            )


def is_reserved(name: str) -> bool:
    """Whether a file directly in a copy is its manifest, or one that is being written: not part of the generation.

    Example:
        >>> is_reserved("_springline.json"), is_reserved("_springline.json.part"), is_reserved("part-0.parquet")
        (True, True, False)
    """
    return name.startswith(FILE_NAME)


def _decode_name(text: str) -> str:
    name = os.fsdecode(unquote_to_bytes(text))
    if not name or name.startswith("/") or ".." in PurePosixPath(name).parts or "\0" in name:
        raise ValueError(f"{name!r} is not the name of a file below it")
    return name
