"""Layout of the copies of a generation in a store, and the removal of left-over copies.

A copy is a folder below the dataset's path. Complete ones are called `@3` (as first written into the
cache), `@3-<token>` (restored into the cache) or `@3-<lease>` (in the under-store); a leading dot
marks a partial copy. No name is used twice, so removing an old copy, even late, cannot harm a
new one: the valid copy is the one that the catalog names.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from springline.persistence.backends.spec import Backend
from springline.persistence.errors import InvalidPathError, PersistenceError
from springline.persistence.model import sidecar
from springline.persistence.model.dataset import Dataset, Ref

_NAME = re.compile(r"(?P<half>\.?)@(?P<generation>\d+)(?:-(?P<token>\w+))?")


@dataclass(frozen=True, slots=True)
class CopyLocation:
    """One copy: its generation, whether it is staged (partial), and the token that makes its name unique."""

    location: str
    ref: Ref
    is_staged: bool
    token: str

    @property
    def lease(self) -> int:
        """The lease number in the name of a copy in the under-store; -1 if there is none."""
        return int(self.token) if self.token.isdigit() else -1

    @property
    def started_at(self) -> float:
        """When the restore of a copy began, in seconds since 1970; 0 if its name does not contain it."""
        seconds, _, rest = self.token.partition("_")
        return float(int(seconds, 16)) if rest else 0.0


def cache_copy_location(ref: Ref) -> str:
    """Return the location in the cache where a generation is first written."""
    return f"{ref.path}/@{ref.generation}"


def restored_copy_location(ref: Ref) -> str:
    """Return a new, unique location in the cache for a generation that is restored."""
    return f"{ref.path}/@{ref.generation}-{int(time.time()):x}_{uuid.uuid4().hex[:8]}"


def under_copy_location(ref: Ref, lease: int) -> str:
    """Return the location in the under-store for a copy made under `lease`; lease 0: written there directly."""
    return f"{ref.path}/@{ref.generation}-{lease}"


def staging_location(location: str) -> str:
    """Return the hidden location of a copy until it is complete."""
    path, _, name = location.rpartition("/")
    return f"{path}/.{name}"


def parse_location(location: str) -> CopyLocation | None:
    """Parse the name of a location; returns None if it is not that of a copy (adopted files keep their own names)."""
    path, _, name = location.rpartition("/")
    if not (match := _NAME.fullmatch(name)) or not path:
        return None
    return CopyLocation(location, Ref(path, int(match["generation"])), bool(match["half"]), match["token"] or "")


def list_copies(backend: Backend, ref: Ref) -> Iterator[CopyLocation]:
    """Yield every copy of a generation in a store, partial ones too."""
    for name in backend.names(ref.path):
        copy = parse_location(f"{ref.path}/{name}")
        if copy is not None and copy.ref == ref:
            yield copy


def require_free_names(names: Iterable[str], where: str) -> None:
    """Raise `InvalidPathError` if a file or folder at `where` has the name that the sidecar of a copy gets."""
    for name in names:
        if sidecar.FILE_NAME in name.split("/"):
            raise InvalidPathError(
                f"{where}: {name} has the name of the file that Springline writes beside each copy; give it another"
            )


def sweep_under(under: Backend, dataset: Dataset, *, before: int) -> None:
    """Remove the copies of `dataset` in the under-store that were started under a lease earlier than `before`.

    The copy that the catalog names stays, and so does a complete copy whose sidecar does not match this
    generation: it may belong to a catalog that was lost.
    """
    for copy in list_copies(under, dataset.ref):
        is_current = dataset.persisted and copy.location == dataset.under_location
        if copy.lease < before and not is_current and (copy.is_staged or _is_copy_of(dataset, under, copy)):
            under.delete(copy.location)


def remove_all_copies(cache: Backend, under: Backend, dataset: Dataset) -> None:
    """Remove every copy of a retired or abandoned generation; adopted files stay in place."""
    for copy in list_copies(cache, dataset.ref):
        cache.delete(copy.location)
    for copy in list_copies(under, dataset.ref):
        if copy.is_staged or copy.location == dataset.under_location or _is_copy_of(dataset, under, copy):
            under.delete(copy.location)


def _is_copy_of(dataset: Dataset, under: Backend, copy: CopyLocation) -> bool:
    try:
        record = sidecar.decode(under.read_small(copy.location, sidecar.FILE_NAME), where=copy.location)
    except (FileNotFoundError, PersistenceError):
        return False
    return record.ref == dataset.ref and record.created_at == dataset.created_at
