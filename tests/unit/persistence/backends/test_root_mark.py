"""The mark of a store that several processes use for the first time."""

from __future__ import annotations

import pytest

from springline.persistence.backends.root_mark import RootMark


def refused_mark(marked: list[str], other: str) -> RootMark:
    """A mark whose creation is refused, since a process named `other` marks the store at the same moment, if any."""

    def create() -> None:
        marked.extend([other] if other else [])
        raise FileNotFoundError("No lease on the file")

    return RootMark("hdfs://cluster/store", lambda: bool(marked), create)


def test_a_refused_mark_is_an_error_unless_another_process_has_marked_the_store() -> None:
    """HDFS ends the lease of the one that was replaced."""
    marked: list[str] = []
    with pytest.raises(FileNotFoundError, match="No lease"):
        refused_mark(marked, "").ensure()
    refused_mark(marked, "other").ensure()
    assert marked == ["other"]
