"""Walking a tree of folders that can only be listed one at a time."""

from __future__ import annotations

import pytest

from springline.persistence.backends.listing import FolderEntry, copies_below, files_below
from springline.persistence.model.manifest import File

TREE = {
    "": [FolderEntry("a", True)],
    "a": [FolderEntry("@1", True), FolderEntry("b", True)],
    "a/@1": [FolderEntry("part.txt", False, 3), FolderEntry("x", True)],
}


def entries(location: str) -> list[FolderEntry]:
    """List a folder of the tree, of which `a/b` and `a/@1/x` vanish once their parent was listed."""
    if location not in TREE:
        raise FileNotFoundError(location)
    return TREE[location]


def test_a_folder_that_goes_while_the_tree_is_walked_is_passed_over() -> None:
    """Somebody deletes it between the listing of its parent and its own."""
    assert list(copies_below(entries)) == ["a/@1"]
    assert list(files_below(entries, "a/@1")) == [File("part.txt", 3)]
    with pytest.raises(FileNotFoundError):
        list(files_below(entries, "a/b"))
