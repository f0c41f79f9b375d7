"""The sidecar beside a persisted copy, written and read back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from springline.persistence.errors import DecodeError, FormatVersionError, PersistenceError
from springline.persistence.model import sidecar
from springline.persistence.model.dataset import Call, Dataset, Origin, Ref, Strategy

DATASET = Dataset(
    Ref("etl/Zürich Köln/рейс", 7),
    bytes=1234,
    rows=10,
    digest="d1",
    strategy=Strategy.ASYNC_STORE,
    checkpoint=True,
    call=Call("etl.clean", "v3", {"ds": "2013-01-05", "note": 'a "quoted" line'}),
    sources=(Ref("etl/a", 2), Ref("etl/a", 1)),
    origin=Origin("etl", "run 1", "clean"),
    compute_seconds=1.5,
    created_at=1_700_000_000.25,
    report={"passed": True, "rows": [1, 2]},
)


@pytest.mark.parametrize("dataset", [DATASET, Dataset(Ref("a", 1))], ids=["all fields", "what is not known"])
def test_what_was_written_is_read_back(dataset: Dataset) -> None:
    """Everything that cannot be found out from the files comes back; the checksum is the copy's."""
    decoded = sidecar.decode(sidecar.encode(dataset, under_checksum="c1", under_bytes=7), where="somewhere")
    assert decoded == replace(dataset, checksum="c1", under_checksum="c1")


def test_a_sidecar_says_how_many_bytes_its_copy_has() -> None:
    """An operation that made it below may have written other files than those in the cache."""
    assert sidecar.read_copy_bytes(sidecar.encode(DATASET, under_checksum="c1", under_bytes=7), where="somewhere") == 7
    with pytest.raises(PersistenceError, match=r"a/@1-1/_springline\.json: .*cannot be read"):
        sidecar.read_copy_bytes(b"{}", where="a/@1-1")


def _without(key: str) -> Callable[[dict], None]:
    return lambda document: document["value"].pop(key)


def _with(key: str, value: object) -> Callable[[dict], None]:
    return lambda document: document["value"].update({key: value})


@pytest.mark.parametrize(
    "damage",
    [
        lambda document: document.pop("form"),
        *(_without(key) for key in ("path", "generation", "call", "sources", "strategy", "checksum")),
        *(_with("path", path) for path in ("../out", "a\0")),
        _with("strategy", "hope"),
        *(_with("sources", [source]) for source in ("a", "../a@1", "a\0@1")),
        _with("call", {"name": "x"}),
        _with("origin", ["a"] * 9),
        _with("bytes_of_copy", "many"),
    ],
)
def test_a_damaged_sidecar_is_named_and_refused(damage: Callable[[dict], None]) -> None:
    """Others may write where it lies: a place outside of the root is no dataset. The error says where it lies."""
    document = json.loads(sidecar.encode(DATASET, under_checksum="c1", under_bytes=7))
    damage(document)
    with pytest.raises(DecodeError, match=r"a/@1-1/_springline\.json: the sidecar of a copy cannot be read"):
        sidecar.decode(json.dumps(document).encode(), where="a/@1-1")


def test_a_sidecar_of_another_version_is_refused_with_the_remedy() -> None:
    """It is not damaged."""
    content = sidecar.encode(DATASET, under_checksum="c1", under_bytes=7).replace(b'"form": 1', b'"form": 99')
    with pytest.raises(FormatVersionError, match=r"has format 99, .*: rebuild the catalog with the version"):
        sidecar.decode(content, where="a/@1-1")
