"""Hostile names: none of them leads out of a store, into SQL, or to another address than the one that is meant."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import requests

from springline.persistence.backends.alluxio import AlluxioBackend
from springline.persistence.backends.alluxio_proxy import AlluxioProxy
from springline.persistence.backends.hdfs import HdfsStore
from springline.persistence.backends.hdfs_filesystem import HdfsFileSystem, WebHdfs
from springline.persistence.backends.local import LocalBackend
from springline.persistence.backends.spec import Backend, UnderStore
from springline.persistence.errors import InvalidPathError, StorageUnavailableError, UnknownDatasetError
from springline.persistence.explain import find_dataset
from springline.persistence.model.dataset import Origin, Ref, Strategy, validate_path
from springline.persistence.model.invisible_characters import find_invisible
from springline.persistence.platform import Platform
from springline.spark_jobs.errors import ParameterError
from springline.spark_jobs.operations import load_operations
from springline.spark_jobs.path_templates import fill_template
from springline.spark_jobs.streaming.errors import InvalidJobError
from springline.spark_jobs.streaming.jobs import read_jobs
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.errors import InvalidRelationError
from springline.spark_jobs.streaming.sources.errors import InvalidStreamError
from springline.spark_jobs.streaming.sources.schema import Field, Stream
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.windows.registry import QueryRegistry
from springline.testing.lines import make_dataset as make
from tests.support.commands import invoke

OUTSIDE = [
    "", "/", "/etc/passwd", "..", "../a", "a/..", "a/../../b", "./a", "a/./b", "a//b", "a/", ".a", "_a", "a/.b", "a/_b",
    "a\0", "\0", "a\nb", "a\rb", "a\tb", "a\x1b[2J", "a\x7f", "a\x85b", "a\u2028b", "a\u2029b", "a\ud800", "a@1",
    "a:b", "a\u202eb", "a\u2066b", "\u200ba", "a\u200d", "a\ufeff", "a\xadb", "a\u2060b", "a\ufe0f", "a\u3164",
    "a\u034f", "a\U000e0041",
    "hdfs://host/a", "file:///etc", "a*", "a?b", "a[1]", "{a,b}", "a\\..\\b", "C:\\a", "x" * 201, "é" * 101,
    "a/" * 600 + "a",
]  # fmt: skip
ODD = [
    "%2e%2e/%2e%2e", "a%00", "a%2fb", "a b", " ", "a;b", "a&b=c", "a#b", "a=b", "a+b", "a'b", 'a"b', "a`b`", "$(a)",
    "a|b", "a%", "~", "~root", "-rf", "--", "<b>", "a..b", "...", "a'; DROP TABLE generation; --", "données/größe",
    "表",
]  # fmt: skip
WELL = [name for name in ODD if not name.startswith(".")]


def test_a_path_that_leads_out_is_no_dataset(platform: Platform) -> None:
    """Wherever one is given: to be read, written, explained, found in a manifest, or imported; in few words."""
    uses: list[Callable[[str], Any]] = [
        validate_path,
        lambda path: Ref.parse(f"{path}@1"),
        platform.catalog.resolve,
        lambda path: find_dataset(platform, path),
        lambda path: find_dataset(platform, path, 1),
        lambda path: platform.store.write(path, strategy=Strategy.CACHE_ONLY).__enter__(),
        lambda path: platform.store.read(path).__enter__(),
        lambda path: platform.maintenance.adopt(path, "a"),
    ]
    for path in OUTSIDE:
        for use in uses:
            with pytest.raises(InvalidPathError) as refused:
                use(path)
            assert len(str(refused.value)) < 700 and "\n" not in str(refused.value)
    assert platform.catalog.find() == []


def test_no_invisible_character_is_in_a_name() -> None:
    """All that Unicode says are formats, but the signs of Arabic and others that stand before numbers and are seen."""
    visible = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
    for number in range(sys.maxunicode + 1):
        letter = chr(number)
        if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") and number not in visible:
            assert find_invisible(f"a{letter}b") == letter, hex(number)
    for name in (*ODD, "نام", "हिन्दी", "ไทย", "👍"):
        assert find_invisible(name) == ""


@pytest.mark.parametrize("letter", ["\u202e", "\u200b", "\u3164", "\ufe0f"])
def test_names_in_streams_follow_the_rule_of_paths(letter: str) -> None:
    """Of streams, fields, queries, columns and sides of joins; a query of that name is none."""
    name = f"a{letter}b"
    fields = (Field("time", "timestamp(s)"), Field("n", "int"))
    query_registry = QueryRegistry.of([Stream("s", fields, "time")])
    with pytest.raises(InvalidStreamError):
        Stream("s", (*fields, Field(name, "int")), "time")
    with pytest.raises(InvalidStreamError):
        Stream(name, fields, "time")
    with pytest.raises(InvalidQueryError):
        query_registry.put(name, "SELECT count(*) AS n FROM s WINDOWING 5 s")
    with pytest.raises(InvalidQueryError):
        query_registry.put("q", f'SELECT count(*) AS "{name}" FROM s WINDOWING 5 s')
    with pytest.raises(InvalidRelationError):
        Relation(name, {"n": "int"})
    with pytest.raises(InvalidRelationError):
        Relation("l", {name: "int"})


@pytest.mark.parametrize("text", ["a", "a@", "a@x", "a@-1", "a@1e3", "a@٣", "a@" + "9" * 30, "@1", "a@1@2"])
def test_a_generation_is_written_in_plain_digits(text: str) -> None:
    """So many as the catalog can count."""
    with pytest.raises(InvalidPathError):
        Ref.parse(text)


SOME = ["", "/etc/passwd", "../a", "a\0", "a\ud800", "a'; DROP TABLE generation; --", "%2e%2e/%2e%2e"]


@pytest.mark.parametrize("command", ["explain", "pin", "evict", "recover"])
@pytest.mark.parametrize("path", SOME)
def test_a_command_names_what_is_wrong_with_a_path(
    command: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or that there is no such dataset; no other error, and nothing is changed."""
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path))
    monkeypatch.setenv("SPRINGLINE_CACHE_URI", f"file://{tmp_path}/cache")
    result = invoke("dataset", command, "--", path)
    assert isinstance(result.exception, InvalidPathError | UnknownDatasetError), result.output


@pytest.mark.parametrize("path", WELL)
def test_an_odd_name_is_itself_in_every_query(path: str, platform: Platform) -> None:
    """As a path, a prefix, a DAG, a run and a task: found by itself alone, and no pattern for others."""
    make(platform, "other/a%b_c", lines=["x"])
    dataset = make(platform, path, lines=["x"], origin=Origin(path, path, path))
    catalog = platform.catalog
    assert [each.ref for each in catalog.find(path=path)] == [dataset.ref]
    assert [each.ref for each in catalog.find(prefix=path)] == [dataset.ref]
    assert [each.ref for each in catalog.find(origin=Origin(path, path, path))] == [dataset.ref]
    assert [each.ref for each in catalog.find(dag_ids=[path], run_ids=[path])] == [dataset.ref]
    assert catalog.resolve(path, Origin(path, path)).ref == dataset.ref
    assert catalog.find(prefix="other/%") == [] and len(catalog.find(prefix="other/a%b_")) == 1
    assert path in catalog.dag_ids()


# ---- parameters


@pytest.mark.parametrize("value", ["", "..", "a/b", ".", "_", "a\0", "a\n", "a@1", "{ds.__class__}", "a\ud800"])
def test_a_parameter_is_one_part_of_a_path(value: str) -> None:
    """A day, say; also where an operation is called by hand; nothing of Python is reached through it."""
    with pytest.raises((ParameterError, InvalidPathError)):
        fill_template("etl/{ds}/clean", {"ds": value})
    with pytest.raises((ParameterError, InvalidPathError)):
        load_operations(["springline.spark_jobs.etl"]).get("etl.load_flights").paths({"ds": value})


@pytest.mark.parametrize("name", ["..", "A", "a b", "-a", "_a", "a'b", "a\\u0000", "a\\n", "a.b", "a" * 42, "ä", ""])
def test_a_job_is_called_by_a_plain_name(name: str, tmp_path: Path) -> None:
    """It stands in paths, topics, and the ids of DAGs."""
    file = tmp_path / "streams.toml"
    file.write_text(f'["{name}"]\ntopic = "t"\n')
    with pytest.raises(InvalidJobError):
        read_jobs(file)


# ---- stores


class AskedError(Exception):
    """A request would be sent."""


@pytest.fixture
def urls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that would be asked."""
    addresses: list[str] = []

    def send(self: requests.Session, request: requests.PreparedRequest, **_: Any) -> None:
        addresses.append(str(request.url))
        raise AskedError

    monkeypatch.setattr(requests.Session, "send", send)
    return addresses


class UnaskedFileSystem(HdfsFileSystem):
    """HDFS whose NameNode is not asked."""

    def run_step(self, path: str, action: Callable[[], Any], **_: Any) -> Any:
        raise AskedError(path)


def hdfs() -> HdfsStore:
    """A store whose NameNode is not asked."""
    filesystem = UnaskedFileSystem("hdfs://host:8020")
    return HdfsStore(
        "hdfs://host:8020/springline", lambda: (filesystem, "/springline"), web=WebHdfs("http://host:9870")
    )


def alluxio() -> AlluxioBackend:
    """One whose proxy is not asked."""
    proxy = AlluxioProxy("http://host:39999", server="alluxio://host:19998")
    return AlluxioBackend("alluxio://host:19998/springline", [proxy])


@pytest.mark.parametrize(
    ("ask", "host", "path", "query"),
    [
        (
            lambda name: WebHdfs("http://host:9870", user="ann").file_checksum(f"/springline/{name}"),
            "host:9870", "/webhdfs/v1/springline/{}", ["op", "user.name"],
        ),
        (lambda name: alluxio().exists(name), "host:39999", "/api/v1/paths//springline/{}/get-status", [""]),
    ],
    ids=["hdfs", "alluxio"],
)  # fmt: skip
@pytest.mark.parametrize("name", WELL)
def test_a_server_is_asked_for_the_name_as_it_stands(
    ask: Callable[[str], object], host: str, path: str, query: list[str], name: str, urls: list[str]
) -> None:
    """Not for another path, another host or another action."""
    with pytest.raises(AskedError):
        ask(name)
    (asked,) = (urlsplit(url) for url in urls)
    assert (asked.scheme, asked.netloc, asked.fragment) == ("http", host, "")
    assert unquote(asked.path) == path.format(name)
    assert sorted(part.partition("=")[0] for part in asked.query.split("&")) == query


@pytest.mark.parametrize("name", WELL)
def test_a_name_node_is_asked_for_the_name_as_it_stands(name: str) -> None:
    """Whatever an address would make of it."""
    with pytest.raises(StorageUnavailableError, match=re.escape(f"AskedError: /springline/{name}")):
        hdfs().exists(name)


@pytest.mark.parametrize("store", ["local", "hdfs", "alluxio"])
@pytest.mark.parametrize("name", ["", "/etc/passwd", "../a", "a/..", "a\0"])
def test_no_store_goes_out_of_its_root(store: str, name: str, tmp_path: Path, urls: list[str]) -> None:
    """For any of its calls: no server is asked, nothing is created."""
    backend: Backend = {"local": LocalBackend(tmp_path / "root"), "hdfs": hdfs(), "alluxio": alluxio()}[store]
    (tmp_path / "a").write_text("hunter2")
    calls: list[Callable[[], Any]] = [
        lambda: backend.uri(name),
        lambda: backend.exists(name),
        lambda: backend.files(name),
        lambda: backend.manifest(name),
        lambda: list(backend.chunks(name, "f")),
        lambda: list(backend.chunks("d", name)),
        lambda: backend.create(name, "f", 1),
        lambda: backend.create("d", name, 1),
        lambda: backend.delete(name),
        lambda: backend.names(name),
    ]
    if isinstance(backend, UnderStore):
        calls += [lambda: backend.publish(name, b""), lambda: backend.read_manifest(name)]
    for number, call in enumerate(calls):
        with pytest.raises(InvalidPathError):
            call()
            pytest.fail(f"call {number} went through")
    assert urls == [] and sorted(path.name for path in tmp_path.rglob("*")) == ["a"]
