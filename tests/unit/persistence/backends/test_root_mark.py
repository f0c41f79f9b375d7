"""The mark of a store that several processes use for the first time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from springline.persistence.backends.root_mark import RootMark


@pytest.fixture
def marked() -> list[str]:
    """Who has marked the store."""
    return []


@pytest.fixture
def mark_in_race(marked: list[str]) -> Callable[[str], RootMark]:
    """A mark that a named process creates at the same moment, so that ours is refused."""

    def make(other: str) -> RootMark:
        def create() -> None:
            marked.extend([other] if other else [])
            raise FileNotFoundError("No lease on the file")

        return RootMark("hdfs://cluster/store", lambda: bool(marked), create)

    return make


def test_a_mark_of_another_process_at_the_same_moment_is_a_mark(
    mark_in_race: Callable[[str], RootMark], marked: list[str]
) -> None:
    """HDFS ends the lease of the one that was replaced."""
    mark_in_race("other").ensure()
    assert marked == ["other"]


def test_a_folder_that_cannot_be_marked_is_an_error(mark_in_race: Callable[[str], RootMark]) -> None:
    """Nobody else has marked it."""
    with pytest.raises(FileNotFoundError, match="No lease"):
        mark_in_race("").ensure()
