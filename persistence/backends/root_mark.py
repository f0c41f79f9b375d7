"""The mark in the root of an under-store: without it the folder is not the store, however healthy it looks.

A disk that is not mounted, a mount point of HDFS or Alluxio without its mount, a NameNode that was formatted: each
shows an empty folder. So a store is marked with an empty file before the first copy in it counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from springline.persistence.errors import StorageUnavailableError

NAME = ".springline-store"


def never() -> bool:
    """Nothing was ever kept here."""
    return False


@dataclass(frozen=True)
class RootMark:
    """The mark of the store at `where`; `in_use`: whether the catalog says that there are copies in it."""

    where: str
    there: Callable[[], bool]
    make: Callable[[], None]
    in_use: Callable[[], bool] = never

    def require(self) -> None:
        """Raise `StorageUnavailableError` if the store was used, and this is not it."""
        if not self.there() and self.in_use():
            raise StorageUnavailableError(
                f"{self.where} is there, but not the mark {NAME} in it: is its disk mounted, is it the right folder? "
                f"If it is the under-store, put an empty file {NAME} there"
            )

    def leave(self) -> None:
        """Mark a store that is used for the first time; raises `StorageUnavailableError` as `require` does."""
        if not self.there():
            self.require()
            self.make()
