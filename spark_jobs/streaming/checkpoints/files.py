"""Stores files as a generation of a dataset: written atomically, and read back from where they are."""

from __future__ import annotations

from collections.abc import Mapping

from springline.persistence.backends.spec import Backend
from springline.persistence.model.dataset import Dataset, OperationResult, Origin, Strategy
from springline.persistence.platform import Platform


def write_files(
    platform: Platform,
    path: str,
    files: Mapping[str, bytes],
    written: OperationResult,
    origin: Origin,
    strategy: Strategy,
) -> Dataset:
    """Commit files as the next generation of `path`; raises `PersistenceError`, and then nothing is stored."""
    with platform.store.write(path, strategy=strategy, origin=origin) as writing:
        backend = platform.under if writing.bypasses_cache else platform.cache
        for name, content in files.items():
            with backend.create(writing.location, name, len(content)) as file:
                file.write(content)
        writing.mark_complete(written)
    return platform.catalog.get(writing.ref)


def read_files(platform: Platform, dataset: Dataset) -> dict[str, bytes]:
    """Return all files of a generation, by name; raises `PersistenceError`."""
    with platform.store.read(dataset.ref.path, generation=dataset.ref.generation) as reading:
        in_cache = reading.dataset.in_cache
        backend: Backend = platform.cache if in_cache else platform.under
        location = reading.dataset.cache_location if in_cache else reading.dataset.under_location
        return {file.name: b"".join(backend.chunks(location, file.name)) for file in backend.files(location)}
