"""Layout of the copies of a generation in a store, their publication, and the removal of left-over ones.

A copy is a folder below the dataset's path, `@3` as first written into the cache, `@3-<time>_<unique>` as restored into
the cache, `@3-<lease>_<unique>` in the under-store. No name is used twice, so removing an old copy, even late, cannot
harm a new one. In the cache the copy counts that the catalog names; in the under-store it is also complete, which its
manifest says.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from springline.persistence.backends.spec import Backend, UnderStore
from springline.persistence.errors import PersistenceError, StorageUnavailableError
from springline.persistence.model.dataset import Dataset, Ref
from springline.persistence.model.manifest import Manifest, decode_manifest, encode_manifest

_NAME = re.compile(r"@(?P<generation>\d+)(?:-(?P<token>\w+))?", re.ASCII)
_VISIBLE_WITHIN = (0.05, 0.1, 0.2, 0.4, 0.8)  # pauses (s) in which a manifest that was just written becomes visible


@dataclass(frozen=True, slots=True)
class CopyLocation:
    """One copy: its generation, and the token that makes its name unique."""

    location: str
    ref: Ref
    token: str

    @property
    def lease(self) -> int:
        """The lease number in the name of a copy in the under-store; -1 if there is none."""
        number, _, rest = self.token.partition("_")
        return int(number) if rest and number.isdecimal() else -1

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
    """Return a new, unique location in the under-store for a copy made under `lease`; 0: written there directly."""
    return f"{ref.path}/@{ref.generation}-{lease}_{uuid.uuid4().hex[:8]}"


def parse_location(location: str) -> CopyLocation | None:
    """Parse the name of a location; returns None if it is not that of a copy (adopted files keep their own names)."""
    path, _, name = location.rpartition("/")
    if not (match := _NAME.fullmatch(name)) or not path:
        return None
    return CopyLocation(location, Ref(path, int(match["generation"])), match["token"] or "")


def list_copies(backend: Backend, ref: Ref) -> Iterator[CopyLocation]:
    """Yield every copy of a generation in a store, also those that are not complete."""
    for name in backend.names(ref.path):
        copy = parse_location(f"{ref.path}/{name}")
        if copy is not None and copy.ref == ref:
            yield copy


def publish_copy(
    under: UnderStore,
    location: str,
    dataset: Dataset,
    manifest: Manifest,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Publish the files at `location` as a copy of `dataset`, and return when a reader finds its manifest.

    Raises `StorageUnavailableError` if none does: whether it is there is not known then.
    """
    content = encode_manifest(dataset, manifest)
    under.publish(location, content)
    for pause in (*_VISIBLE_WITHIN, None):
        try:
            if under.read_manifest(location) == content:
                return
        except FileNotFoundError:
            pass
        if pause is not None:
            sleep(pause)
    raise StorageUnavailableError(f"{location}: its manifest was written, and is not there or has another content")


def read_copy(under: UnderStore, location: str) -> tuple[Dataset, Manifest]:
    """Return the generation and the files of a published copy; raises `FileNotFoundError`, `DecodeError`."""
    return decode_manifest(under.read_manifest(location), where=location)


def sweep_under(under: UnderStore, dataset: Dataset, *, before: int) -> list[str]:
    """Remove the copies of `dataset` in the under-store that were started under a lease earlier than `before`.

    The copy that the catalog names stays.

    Returns:
        The published copies of another generation of the same name, which stay too: they belong to a catalog that was
        lost.
    """
    foreign_locations = []
    for copy in list_copies(under, dataset.ref):
        if dataset.persisted and copy.location == dataset.under_location:
            continue
        if not _is_removable(dataset, under, copy):
            foreign_locations.append(copy.location)
        elif copy.lease < before:
            under.delete(copy.location)
    return foreign_locations


def require_no_foreign_copies(locations: Sequence[str]) -> None:
    """Raise `StorageUnavailableError` if there are published copies that belong to a catalog that was lost."""
    if locations:
        raise StorageUnavailableError(
            f"{locations[0]} already exists in the under-store, but not in the catalog; if the catalog was lost, "
            "run `springline catalog rebuild` on an empty one"
        )


def remove_all_copies(cache: Backend, under: UnderStore, dataset: Dataset) -> None:
    """Remove every copy of a retired or abandoned generation; adopted files stay in place."""
    for copy in list_copies(cache, dataset.ref):
        cache.delete(copy.location)
    for copy in list_copies(under, dataset.ref):
        if copy.location == dataset.under_location or _is_removable(dataset, under, copy):
            under.delete(copy.location)


def _is_removable(dataset: Dataset, under: UnderStore, copy: CopyLocation) -> bool:
    """Whether a copy is not published, or is one of this very generation."""
    try:
        published, _ = read_copy(under, copy.location)
    except FileNotFoundError:
        return True
    except PersistenceError:
        return False
    return published.ref == dataset.ref and published.created_at == dataset.created_at
