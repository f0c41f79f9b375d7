"""`springline://` passes fsspec's own tests of what reads, and what is its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.tests.abstract import AbstractFixtures, AbstractGetTests

from springline.persistence.dataset_filesystem import DatasetFile, DatasetFileSystem
from springline.persistence.errors import IrrecoverableError
from springline.persistence.model.dataset import OperationResult, Ref, Strategy
from springline.persistence.platform import Platform
from springline.testing.lines import make_dataset as make
from springline.testing.platform import platform_in
from tests.support.datasets.states import let_go, lose_cache, wipe_cache


def write_folder(platform: Platform, path: str, folder: Path) -> Ref:
    """Persist the files of a folder as the next version of a dataset."""
    with platform.store.write(path, strategy=Strategy.CACHE_THROUGH) as writing:
        LocalFileSystem(auto_mkdir=True).put(f"{folder}/", f"{writing.uri.removeprefix('file://')}/", recursive=True)
        writing.mark_complete(OperationResult(0, "", 0.0))
    return writing.ref


def write_files(platform: Platform, path: str, contents: Mapping[str, bytes]) -> Ref:
    """Persist files as the next version of a dataset."""
    with platform.store.write(path, strategy=Strategy.CACHE_THROUGH) as writing:
        for name, content in contents.items():
            file = Path(writing.uri.removeprefix("file://")) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        writing.mark_complete(OperationResult(0, "", 0.0))
    return writing.ref


class TestGet(AbstractFixtures, AbstractGetTests):
    """What fsspec expects of every file system from which files are copied; the scenarios are datasets."""

    @pytest.fixture
    def platform(self, tmp_path: Path) -> Iterator[Platform]:
        with platform_in(tmp_path / "platform") as platform:
            yield platform

    @pytest.fixture
    def fs(self, platform: Platform) -> DatasetFileSystem:
        return DatasetFileSystem.over(platform)

    @pytest.fixture
    def fs_path(self) -> str:
        return "tests"

    @pytest.fixture
    def fs_bulk_operations_scenario_0(self, platform: Platform, tmp_path: Path) -> str:
        return self._written(platform, tmp_path, self._bulk_operations_scenario_0)

    @pytest.fixture
    def fs_glob_edge_cases_files(self, platform: Platform, tmp_path: Path) -> str:
        return self._written(platform, tmp_path, self._glob_edge_cases_files)

    @pytest.fixture
    def fs_dir_and_file_with_same_name_prefix(self, platform: Platform, tmp_path: Path) -> str:
        return self._written(platform, tmp_path, self._dir_and_file_with_same_name_prefix)

    @pytest.fixture
    def fs_10_files_with_hashed_names(self, platform: Platform, tmp_path: Path) -> str:
        return self._written(platform, tmp_path, self._10_files_with_hashed_names)

    def test_get_directory_recursive(  # type: ignore[override]
        self, platform: Platform, fs: DatasetFileSystem, local_fs: LocalFileSystem, local_target: str
    ) -> None:
        """As fsspec's test of this name, which would make its source through the file system."""
        write_files(platform, "tests/src", {"file": b""})
        for _ in range(2):  # into a folder that does not exist, and then into it
            fs.get("tests/src", local_target, recursive=True)
        assert local_fs.find(local_target) == [f"{local_target}/file", f"{local_target}/src/file"]
        local_fs.rm(local_target, recursive=True)
        for _ in range(2):
            fs.get("tests/src/", local_target, recursive=True)
        assert local_fs.find(local_target) == [f"{local_target}/file"]

    @staticmethod
    def _written(platform: Platform, tmp_path: Path, make_files) -> str:  # type: ignore[no-untyped-def]
        """What fsspec makes in a folder, as a dataset of that name."""
        join = lambda *parts: "/".join(map(str, parts))  # noqa: E731
        folder = make_files(LocalFileSystem(auto_mkdir=True), join, str(tmp_path / "scenario"))
        write_folder(platform, "tests/source", Path(folder))
        return "tests/source"


@pytest.fixture
def filesystem(platform: Platform) -> Iterator[DatasetFileSystem]:
    """The datasets of the platform."""
    filesystem = DatasetFileSystem.over(platform)
    yield filesystem
    filesystem.close()


CONTENTS = {"part-0.txt": b"abc", "x/part-1.txt": b"defg", "Köln 100%.txt": b""}


# ---- paths


def test_datasets_are_folders_and_their_files_are_in_them(platform: Platform, filesystem: DatasetFileSystem) -> None:
    """From the root down; with a version every name says so, without one none does."""
    write_files(platform, "etl/2013-01-05/clean", CONTENTS)
    make(platform, "etl/2013-01-06/clean", lines=["x"])
    make(platform, "words", lines=["x"])
    assert filesystem.ls("", detail=False) == ["etl", "words"]
    assert filesystem.ls("springline://etl/", detail=False) == ["etl/2013-01-05", "etl/2013-01-06"]
    for path in ("etl/2013-01-05/clean", "etl/2013-01-05/clean@1"):
        names = [f"{path}/Köln 100%.txt", f"{path}/part-0.txt", f"{path}/x/part-1.txt"]
        assert filesystem.find(path) == names
        assert sorted(filesystem.ls(path, detail=False)) == [names[0], names[1], f"{path}/x"]
        assert filesystem.glob(f"springline://{path}/**/*.txt") == names
        assert [filesystem.cat_file(name) for name in names] == [b"", b"abc", b"defg"]
        assert filesystem.isdir(f"{path}/x") and filesystem.isfile(names[1]) and filesystem.du(path) == 7
    assert filesystem.info("etl/2013-01-05/clean")["version"] == 1
    assert filesystem.info("etl/2013-01-05")["type"] == "directory"


@pytest.mark.parametrize(
    "path",
    ["nowhere", "etl/clean@2", "etl/clean@0", "etl/clean/part-9.txt", "etl/clean@1/x/y", "../etl", "etl/a:b", "@1"],
)
def test_what_is_not_there_is_not_there(platform: Platform, filesystem: DatasetFileSystem, path: str) -> None:
    """A dataset, a version, a file, or a path that can be none; the error names it."""
    write_files(platform, "etl/clean", CONTENTS)
    assert not filesystem.exists(path)
    for ask in (filesystem.ls, filesystem.info, filesystem.open, filesystem.cat_file):
        with pytest.raises(FileNotFoundError, match="no such dataset, version or file"):
            ask(path)


def test_of_nested_datasets_each_has_its_own_files(platform: Platform, filesystem: DatasetFileSystem) -> None:
    """Whoever reads the outer one as a table does not read the inner one with it."""
    write_files(platform, "a", {"b/part.txt": b"of a", "part.txt": b"of a"})
    write_files(platform, "a/b", {"part.txt": b"of a/b"})
    assert filesystem.find("a") == ["a/b/part.txt", "a/part.txt"] or filesystem.cat_file("a@1/b/part.txt") == b"of a"
    assert filesystem.cat_file("a/b/part.txt") == b"of a/b" and filesystem.cat_file("a@1/b/part.txt") == b"of a"


def test_a_folder_is_no_file(platform: Platform, filesystem: DatasetFileSystem) -> None:
    """Neither a dataset nor what lies above or in it."""
    write_files(platform, "etl/clean", CONTENTS)
    for path in ("etl", "etl/clean", "etl/clean/x"):
        with pytest.raises(IsADirectoryError):
            filesystem.open(path)


# ---- versions


def test_a_version_that_is_read_stays_the_one_that_was_listed(platform: Platform, tmp_path: Path) -> None:
    """Whatever is committed, evicted and retired meanwhile; later a new look shows the newest."""
    filesystem = DatasetFileSystem.over(platform)
    first = write_files(platform, "a", {"part.txt": b"first"})
    assert filesystem.ls("a", detail=False) == ["a/part.txt"]
    write_files(platform, "a", {"other.txt": b"second"})
    assert platform.maintenance.retire() == []
    assert filesystem.cat_file("a/part.txt") == b"first" and filesystem.cat_file("a@2/other.txt") == b"second"
    filesystem.close()
    assert filesystem.ls("a", detail=False) == ["a/other.txt"]
    filesystem.close()
    assert platform.maintenance.retire() == [first]
    assert not filesystem.exists("a@1") and filesystem.ukey("a") == "a@2/"


def test_it_is_read_from_the_cache_and_else_from_the_under_store(
    platform: Platform, filesystem: DatasetFileSystem
) -> None:
    """Evicted or lost; nothing is fetched into the cache by that."""
    dataset = platform.catalog.get(write_files(platform, "a", CONTENTS))
    assert filesystem.spark_uri("a") == platform.cache.uri(dataset.cache_location)
    filesystem.close()
    let_go(platform, dataset.ref)
    assert filesystem.spark_uri("a@1") == platform.under.uri(dataset.under_location)
    assert filesystem.cat_file("a/x/part-1.txt") == b"defg" and not platform.catalog.get(dataset.ref).in_cache


def test_what_was_lost_is_restored_first_or_named(platform: Platform, filesystem: DatasetFileSystem) -> None:
    """By its operation, if it has one that repeats."""
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    make(platform, "b", "shout", ["a"])
    make(platform, "c", lines=["x"])
    lose_cache(platform)
    (name,) = filesystem.find("b")
    assert filesystem.cat_file(name).startswith(b"LINE 0\n")
    with pytest.raises(IrrecoverableError, match="c@1"):
        filesystem.ls("c")


def test_what_is_lost_while_it_is_read_is_read_from_where_it_is_left(
    platform: Platform, filesystem: DatasetFileSystem
) -> None:
    """Between the list and the file, and between two blocks of it."""
    write_files(platform, "a", CONTENTS)
    names = filesystem.find("a")
    snapshot = filesystem._snapshot("a", None)
    assert snapshot is not None
    with DatasetFile(filesystem, "a/part-0.txt", snapshot, "part-0.txt", 1, None) as file:
        assert file.read(1) == b"a"
        wipe_cache(platform)
        assert file.read() == b"bc"
    filesystem.close()
    make(platform, "b", lines=["x"], strategy=Strategy.CACHE_THROUGH)
    (name,) = filesystem.find("b")
    wipe_cache(platform)
    assert filesystem.cat_file(name) == b"x\n" and filesystem.cat_file(names[1]) == b"abc"


def test_a_store_that_is_no_folder_is_read_in_blocks(platform: Platform, filesystem: DatasetFileSystem) -> None:
    """Only what is asked for crosses the link, wherever it begins."""
    content = bytes(range(256)) * 100
    dataset = platform.catalog.get(write_files(platform, "a", {"part.bin": content}))
    (snapshot,) = (filesystem._snapshot("a", None),)
    assert snapshot is not None and snapshot.location == dataset.cache_location
    with DatasetFile(filesystem, "a/part.bin", snapshot, "part.bin", 1000, None) as file:
        assert file.read(10) == content[:10]
        file.seek(20_000)
        assert file.read(100) == content[20_000:20_100] and file.seek(-5, 2) and file.read() == content[-5:]


# ---- a file system among others


def test_it_is_found_by_its_protocol_with_settings_as_options(tmp_path: Path) -> None:
    """As pandas and others open it; nothing has to be imported."""
    with platform_in(tmp_path, cache_uri=(tmp_path / "cache").as_uri()) as platform:
        write_files(platform, "a", CONTENTS)
        options = {"home": tmp_path / "home", "cache_uri": (tmp_path / "cache").as_uri()}
        with fsspec.open("springline://a/part-0.txt", **options) as file:
            assert file.read() == b"abc"
        filesystem, path = fsspec.url_to_fs("springline://a@1", **options)
        assert isinstance(filesystem, DatasetFileSystem) and path == "a@1"
        wipe_cache(platform)
        filesystem.close()
        assert filesystem.cat("a@1/x/part-1.txt") == b"defg"


def test_nothing_is_written(platform: Platform, filesystem: DatasetFileSystem) -> None:
    """Each call that would is refused, and says who writes datasets."""
    write_files(platform, "a", CONTENTS)
    for ask in (
        lambda: filesystem.open("a/part-0.txt", "wb"),
        lambda: filesystem.pipe_file("a/new", b""),
        lambda: filesystem.pipe("a/new", b""),
        lambda: filesystem.touch("a/new"),
        lambda: filesystem.rm("a", recursive=True),
        lambda: filesystem.mkdir("b"),
        lambda: filesystem.makedirs("b"),
        lambda: filesystem.mv("a/part-0.txt", "a/new"),
        lambda: filesystem.copy("a/part-0.txt", "a/new"),
    ):
        with pytest.raises(OSError, match="datasets are read-only here"):
            ask()
    assert filesystem.cat_file("a/part-0.txt") == b"abc"
