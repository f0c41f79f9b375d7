"""Where the copies of a generation lie in a store, and how what is left of one that is over is removed.

A copy is a folder below the dataset's path. Whole ones are called `@3` (as first written into the
cache), `@3-<token>` (restored into the cache) or `@3-<lease>` (in the under-store); a leading dot
marks a half copy. No name is used twice, so whoever removes an old copy, or wakes up late, harms no
new one: the catalog names the copy that counts.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from springline.persistence.backends.spec import Backend
from springline.persistence.errors import PersistenceError
from springline.persistence.model import sidecar
from springline.persistence.model.dataset import Dataset, Ref

_NAME = re.compile(r"(?P<half>\.?)@(?P<generation>\d+)(?:-(?P<token>\w+))?")


@dataclass(frozen=True, slots=True)
class Place:
    """One copy: which generation's, whole or half, and the token that tells it from the others."""

    location: str
    ref: Ref
    half: bool
    token: str

    @property
    def lease(self) -> int:
        """The number of the lease in the name of a copy in the under-store; -1 if there is none."""
        return int(self.token) if self.token.isdigit() else -1

    @property
    def begun_at(self) -> float:
        """When a restored copy was begun, in seconds since 1970; 0 if its name does not tell."""
        seconds, _, rest = self.token.partition("_")
        return float(int(seconds, 16)) if rest else 0.0


def cache_place(ref: Ref) -> str:
    """Where a generation is first written in the cache."""
    return f"{ref.path}/@{ref.generation}"


def restored_place(ref: Ref) -> str:
    """A new place in the cache for a generation that is brought back."""
    return f"{ref.path}/@{ref.generation}-{int(time.time()):x}_{uuid.uuid4().hex[:8]}"


def under_place(ref: Ref, lease: int) -> str:
    """Where the copy made under a lease lies in the under-store; lease 0: written straight down."""
    return f"{ref.path}/@{ref.generation}-{lease}"


def half_of(location: str) -> str:
    """Where a copy lies, hidden, until it is whole."""
    path, _, name = location.rpartition("/")
    return f"{path}/.{name}"


def place_of(location: str) -> Place | None:
    """What the name of a location tells; None if it is not that of a copy (adopted files keep their own names)."""
    path, _, name = location.rpartition("/")
    if not (found := _NAME.fullmatch(name)) or not path:
        return None
    return Place(location, Ref(path, int(found["generation"])), bool(found["half"]), found["token"] or "")


def places_of(backend: Backend, ref: Ref) -> Iterator[Place]:
    """Every copy of a generation in a store, half ones too."""
    for name in backend.names(ref.path):
        place = place_of(f"{ref.path}/{name}")
        if place is not None and place.ref == ref:
            yield place


def sweep_under(under: Backend, dataset: Dataset, *, before: int) -> None:
    """Remove the copies of `dataset` in the under-store that were begun under a lease earlier than `before`.

    The copy that the catalog names stays, and so does a whole copy whose sidecar does not know this
    generation: a catalog that was lost may have named it.
    """
    for place in places_of(under, dataset.ref):
        winner = dataset.persisted and place.location == dataset.under_location
        if place.lease < before and not winner and (place.half or _made_for(dataset, under, place)):
            under.delete(place.location)


def remove_all(cache: Backend, under: Backend, dataset: Dataset) -> None:
    """Remove every copy of a generation whose life is over; files that were adopted stay where they are."""
    for place in places_of(cache, dataset.ref):
        cache.delete(place.location)
    for place in places_of(under, dataset.ref):
        if place.half or place.location == dataset.under_location or _made_for(dataset, under, place):
            under.delete(place.location)


def _made_for(dataset: Dataset, under: Backend, place: Place) -> bool:
    try:
        told = sidecar.read(under.read_small(place.location, sidecar.NAME), where=place.location)
    except (FileNotFoundError, PersistenceError):
        return False
    return told.ref == dataset.ref and told.created_at == dataset.created_at
