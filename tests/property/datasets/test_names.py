"""Whatever the folders and files of a user are called, they are where their names say."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import make_url

from springline.doctor.findings import FindingState
from springline.doctor.servers import check_catalog, check_store
from springline.persistence.model.dataset import OperationResult, Strategy
from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings
from springline.services.servers.airflow import airflow
from springline.services.settings import ServiceSettings
from springline.testing.lines import LinesRunner, lines_of
from springline.testing.lines import make_dataset as make
from tests.support.datasets.states import wipe_cache
from tests.support.examples import examples

_memory = Path("/dev/shm")
PRINTABLE = st.text(st.characters(exclude_categories=["C"], exclude_characters="/"), min_size=1, max_size=20)
# Whatever a file can be called: any bytes but / and NUL, also those that are no text.
FILE_NAMES = (
    (st.binary(min_size=1, max_size=20) | PRINTABLE.map(str.encode))
    .filter(lambda name: not {*b"/\0"} & {*name} and name not in (b".", b"..") and b"_springline.json" not in name)
    .map(os.fsdecode)
)
CONTENTS = st.recursive(st.binary(max_size=50), lambda inner: st.dictionaries(FILE_NAMES, inner, min_size=1))
TREES = st.dictionaries(FILE_NAMES, CONTENTS, min_size=1, max_size=5)
Tree = dict[str, "Tree | bytes"]
NAMES = PRINTABLE.filter(lambda name: name not in (".", ".."))
CATALOG_URL = "sqlite:///{home}/catalog.db"


def open_in(home: Path, catalog_url: str = "") -> Platform:
    """The platform of a home, its cache beside it."""
    cache_uri = str(home.parent / "cache")
    return open_platform(Settings(home=home, cache_uri=cache_uri, catalog_url=catalog_url), runner=LinesRunner())  # type: ignore[call-arg]


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    """A home with a migrated catalog, from which each example starts."""
    with tempfile.TemporaryDirectory(dir=_memory if _memory.is_dir() else None) as folder:
        open_in(Path(folder, "home")).close()
        yield Path(folder, "home")


@example(name="data #1", catalog_url="")
@example(name="100%25", catalog_url=CATALOG_URL)
@example(name="a?b=1&c", catalog_url=CATALOG_URL)
@example(name="{home}", catalog_url=CATALOG_URL)
@given(name=NAMES, catalog_url=st.sampled_from(["", CATALOG_URL]))
@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
def test_a_home_of_any_name_holds_all_of_its_data(template: Path, name: str, catalog_url: str) -> None:
    """Catalog, stores and the database of Airflow, as they are opened and as they are checked."""
    with tempfile.TemporaryDirectory(dir=template.parent) as folder:
        home = Path(folder, name, "home")
        shutil.copytree(template, home)
        platform = open_in(home, catalog_url)
        try:
            make(platform, "words", lines=[name])
            assert platform.persister.drain().persisted == 1
            wipe_cache(platform)
            assert lines_of(platform, "words") == [name]
            catalog = check_catalog(platform.settings.catalog_address)
            under = check_store("under-store", platform.settings.under_address, platform.settings)
        finally:
            platform.close()
        assert list((home / "under/words").iterdir()) and (catalog.state, under.state) == (FindingState.OK,) * 2
        assert "answers" in catalog.message and "exists" in under.message
        database = airflow(ServiceSettings(home=home, airflow_database="sqlite")).environment  # type: ignore[call-arg]
        assert make_url(database["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]).database == str(home / "airflow/airflow.db")
        assert [path.name for path in Path(folder).iterdir()] == [name]


def write_tree(folder: Path, tree: Tree) -> None:
    """Write files and folders."""
    folder.mkdir(parents=True)
    for name, content in tree.items():
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            write_tree(folder / name, content)


def read_tree(folder: Path) -> Tree:
    """Read what `write_tree` wrote."""
    return {path.name: read_tree(path) if path.is_dir() else path.read_bytes() for path in folder.iterdir()}


@example(tree={"_region=EU": {"part.csv": b"a"}, "_index.json": b"{}", ".columns": b"c"}, bypasses=False)
@example(tree={"_SUCCESS": b"", ".part.crc": b"x", "@1": {"_mark": b""}, "a\nb\t1": b""}, bypasses=True)
@given(tree=TREES, bypasses=st.booleans())
@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
def test_a_tree_of_any_file_names_comes_back_as_it_was_written(template: Path, tree: Tree, bypasses: bool) -> None:
    """Nothing vanishes on the way to the under-store and back, whatever it is called."""
    with tempfile.TemporaryDirectory(dir=template.parent) as folder:
        home = Path(folder, "home")
        shutil.copytree(template, home)
        platform = open_in(home)
        try:
            if bypasses:
                platform.replacement.limit = -1
            with platform.store.write("tree", strategy=Strategy.CACHE_THROUGH) as writing:
                assert writing.bypasses_cache is bypasses
                write_tree(Path(writing.uri.removeprefix("file://")), tree)
                writing.mark_complete(OperationResult(0, "", 0.0))
            wipe_cache(platform)
            platform.replacement.limit = 1 << 30
            with platform.store.read("tree") as reading:
                assert reading.dataset.in_cache and read_tree(Path(reading.uri.removeprefix("file://"))) == tree
        finally:
            platform.close()
