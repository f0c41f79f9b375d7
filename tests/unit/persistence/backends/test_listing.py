"""Walking a tree of folders that can only be listed one at a time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from springline.persistence.backends.listing import (
    FolderEntry,
    checked_below,
    copies_below,
    files_below,
    locations_below,
)
from springline.persistence.errors import InvalidPathError

FILES = [
    "a/@1/part.txt", "a/@1/x/y.txt", "a/@1/_mark", "a/@1/.hidden/z", "a/b/.@2/part.txt", "a/b/.@2/_mark", "c/d.txt",
]  # fmt: skip


def entries(location: str, *, missing: Sequence[str] = ()) -> list[FolderEntry]:
    """A tree of the files above; what is in `gone` vanishes once its folder was listed."""
    inside = [path for path in FILES if path.startswith(f"{location}/" if location else "")]
    if not inside or location in missing:
        raise FileNotFoundError(location)
    rest = {path[len(location) + 1 if location else 0 :] for path in inside}
    folders = {path.partition("/")[0] for path in rest if "/" in path}
    return [FolderEntry(name, True) for name in sorted(folders)] + [
        FolderEntry(name, False, 3) for name in rest if "/" not in name
    ]


def test_files_of_a_generation_are_found_at_any_depth_and_hidden_ones_left_out() -> None:
    """Marks, and whatever lies in a hidden folder, belong to the writer."""
    assert sorted((file.name, file.bytes) for file in files_below(entries, "a/@1")) == [("part.txt", 3), ("x/y.txt", 3)]


def test_a_location_that_is_not_there_is_told_from_one_that_is_empty() -> None:
    """The listing of the location itself raises."""
    with pytest.raises(FileNotFoundError):
        list(files_below(entries, "nothing"))


def test_copies_are_found_and_nothing_in_them_is_looked_at() -> None:
    """Whole and half ones."""
    assert sorted(copies_below(entries)) == ["a/@1", "a/b/.@2"]


def test_marked_locations_are_found_unless_they_are_hidden() -> None:
    """A half copy's mark does not count."""
    assert list(locations_below(entries, "_mark")) == ["a/@1"]


def test_a_folder_that_goes_while_the_tree_is_walked_is_passed_over() -> None:
    """Somebody deletes it between the listing of its parent and its own."""
    copies = copies_below(lambda location: entries(location, missing=["a/b"]))
    assert list(copies) == ["a/@1"]
    files = files_below(lambda location: entries(location, missing=["a/@1/x"]), "a/@1")
    assert [file.name for file in files] == ["part.txt"]


@pytest.mark.parametrize("text", ["", "/etc", "..", "a/../b"])
def test_what_leads_out_is_refused(text: str) -> None:
    """In a location as well as in a file's name."""
    for texts in ((text,), ("a", text)):
        with pytest.raises(InvalidPathError, match="not a path below"):
            checked_below("hdfs://host:1/root", *texts)
    assert checked_below("x", "a/@1", "day=1/part 1.txt") == "a/@1/day=1/part 1.txt"
