"""The errors of a look into the files of a generation: each names the place, the reason and the remedy."""

from __future__ import annotations

from springline.persistence.errors import PersistenceError


class UnreadableContentError(PersistenceError):
    """A file of a generation is broken, of an unknown format, or too large to be looked into."""


class NoCopyError(PersistenceError):
    """Neither store has the bytes of a generation now."""
