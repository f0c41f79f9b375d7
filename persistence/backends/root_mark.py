"""The mark in the root of an under-store: a folder without it is not the store, even if it is accessible.

A disk that is not mounted, a mount point of HDFS or Alluxio without its mount, a NameNode that was formatted: each
shows an empty folder. So a store is marked with an empty file before the first copy in it counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from springline.persistence.errors import StorageUnavailableError

MARK_NAME = ".springline-store"


def never_in_use() -> bool:
    """Return False: the store was never used."""
    return False


@dataclass(frozen=True)
class RootMark:
    """The mark of the store at `location`; `in_use`: whether the catalog names copies in it."""

    location: str
    exists: Callable[[], bool]
    create: Callable[[], None]
    in_use: Callable[[], bool] = never_in_use

    def require(self) -> None:
        """Raise `StorageUnavailableError` if the store is in use, and its mark is missing."""
        if not self.exists() and self.in_use():
            raise StorageUnavailableError(
                f"{self.location} exists, but without the marker file {MARK_NAME}: is "
                f"its disk mounted, is it the right folder? "
                f"If it is the under-store, put an empty file {MARK_NAME} there"
            )

    def ensure(self) -> None:
        """Mark a store that is used for the first time; raises `StorageUnavailableError` as `require` does."""
        if not self.exists():
            self.require()
            try:
                self.create()
            except FileNotFoundError:  # HDFS, when another process replaces it with its own at the same moment
                if not self.exists():
                    raise
