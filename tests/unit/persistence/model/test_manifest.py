"""The manifest of a persisted copy, written and read back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springline.persistence.errors import DecodeError, FormatVersionError
from springline.persistence.model.dataset import Call, Dataset, Origin, Ref, Strategy
from springline.persistence.model.manifest import File, Manifest, decode_manifest, encode_manifest

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
FILES = Manifest((File("Zürich Köln/part 0 #1%.txt", 3, "4f"), File("\udcff", 4, "e0")))


@pytest.mark.parametrize("dataset", [DATASET, Dataset(Ref("a", 1))], ids=["all fields", "what is not known"])
def test_what_was_written_is_read_back(dataset: Dataset) -> None:
    """Everything that cannot be found out from the files comes back; the checksum is the copy's."""
    decoded, files = decode_manifest(encode_manifest(dataset, FILES), where="somewhere")
    assert decoded == replace(dataset, checksum=FILES.checksum, under_checksum=FILES.checksum)
    assert files == FILES and files.bytes == 7


@given(st.sets(st.binary(min_size=1, max_size=30).filter(lambda name: b"\0" not in name), min_size=1))
def test_a_file_of_any_name_comes_back(names: set[bytes]) -> None:
    """A name is any bytes, whether or not they are text."""
    named = sorted(os.fsdecode(name) for name in names if not name.startswith(b"/") and b".." not in name.split(b"/"))
    manifest = Manifest(tuple(File(name, 1, "c") for name in named))
    assert decode_manifest(encode_manifest(DATASET, manifest), where="somewhere")[1] == manifest


def _without(key: str) -> Callable[[dict], None]:
    return lambda document: document["value"].pop(key)


def _with(key: str, value: object) -> Callable[[dict], None]:
    return lambda document: document["value"].update({key: value})


@pytest.mark.parametrize(
    "damage",
    [
        lambda document: document.pop("form"),
        *(_without(key) for key in ("path", "generation", "call", "sources", "strategy", "checksum", "files")),
        *(_with("path", path) for path in ("../out", "a\0")),
        _with("strategy", "hope"),
        *(_with("sources", [source]) for source in ("a", "../a@1", "a\0@1")),
        _with("call", {"name": "x"}),
        _with("origin", ["a"] * 9),
        _with("bytes", "many"),
        _with("checksum", "another"),
        *(_with("files", [{"name": name, "bytes": 7, "checksum": "c"}]) for name in ("../out", "/etc/x", "", "a%00")),
        lambda document: document["value"]["files"].pop(),
        lambda document: document["value"]["files"][0].update(bytes=8),
    ],
)
def test_a_damaged_manifest_is_named_and_refused(damage: Callable[[dict], None]) -> None:
    """Others may write where it lies: a place outside of the root is no dataset. The error says where it lies."""
    document = json.loads(encode_manifest(DATASET, FILES))
    damage(document)
    with pytest.raises(DecodeError, match=r"a/@1-1/_springline\.json: the manifest of a copy cannot be read"):
        decode_manifest(json.dumps(document).encode(), where="a/@1-1")


def test_a_manifest_of_another_version_is_refused_with_the_remedy() -> None:
    """It is not damaged."""
    content = encode_manifest(DATASET, FILES).replace(b'"form": 1', b'"form": 99')
    with pytest.raises(FormatVersionError, match=r"has format 99, .*: rebuild the catalog with the version"):
        decode_manifest(content, where="a/@1-1")
