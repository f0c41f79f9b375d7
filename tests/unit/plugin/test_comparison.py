"""Two generations side by side: what is the same, added, removed or changed."""

from __future__ import annotations

from dataclasses import replace

from springline.airflow.content.table_head import ContentColumn
from springline.airflow.lineage.comparison import Change, ComparedValue, compare
from springline.persistence.model.dataset import Call, Dataset, Ref

CALL = Call("clean", "v1", {"ds": "1", "old": "o", "same": "s"})
LATER_CALL = Call("clean", "v2", {"ds": "2", "new": "n", "same": "s"})
FIRST = Dataset(Ref("a", 1), bytes=10, rows=1, digest="x", call=CALL)
SECOND = Dataset(Ref("a", 2), bytes=20, rows=2, digest="y", call=LATER_CALL)


def test_columns_are_compared_by_name_and_type() -> None:
    """In the order of the later generation, what is gone last; whether null is allowed is a part of the type."""
    before = [ContentColumn("id", "int32", False), ContentColumn("gone", "string"), ContentColumn("kept", "double")]
    after = [ContentColumn("new", "string"), ContentColumn("id", "int64", False), ContentColumn("kept", "double")]
    assert compare(FIRST, SECOND, before, after).columns == [
        ComparedValue("new", Change.ADDED, "", "string"),
        ComparedValue("id", Change.CHANGED, "int32, never null", "int64, never null"),
        ComparedValue("kept", Change.SAME, "double", "double"),
        ComparedValue("gone", Change.REMOVED, "string", ""),
    ]


def test_parameters_are_compared_too() -> None:
    """A parameter that is empty is there."""
    changes = {each.name: each.change for each in compare(FIRST, SECOND, "", "").params}
    assert changes == {"ds": Change.CHANGED, "new": Change.ADDED, "same": Change.SAME, "old": Change.REMOVED}
    by_hand = replace(FIRST, call=None)
    assert compare(by_hand, by_hand, "", "").params == [] and compare(by_hand, SECOND, "", "").before.operation == ""
    empty = replace(SECOND, call=Call("clean", "v2", {"old": ""}))
    assert compare(FIRST, empty, "", "").params[0] == ComparedValue("old", Change.CHANGED, "o", "")


def test_rows_are_the_same_if_their_digests_are() -> None:
    """Nothing is said if one of them has none."""
    assert compare(FIRST, replace(SECOND, digest="x"), "", "").same_digest is True
    assert compare(FIRST, SECOND, "", "").same_digest is False
    assert compare(FIRST, replace(SECOND, digest=""), "", "").same_digest is None


def test_columns_that_are_not_known_are_reported_with_the_reason() -> None:
    """Nothing is compared then; of the other side they are not said to be added."""
    compared = compare(FIRST, SECOND, "a@1 is retired: its files are deleted", [ContentColumn("id", "int64")])
    assert compared.columns == ()
    assert compared.before.columns_unknown == "a@1 is retired: its files are deleted"
    assert compared.after.columns_unknown == ""
    assert (compared.before.bytes, compared.after.rows, compared.after.version) == (10, 2, "v2")
