"""What installed packages add: found by name, and what is said where one is not there or does not work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from springline.persistence import extensions
from springline.persistence.backends.registry import open_backend
from springline.persistence.errors import StorageUnavailableError, UsageError
from springline.persistence.policies import load_policy
from springline.persistence.settings import Settings

PACKAGE = """\
from springline.persistence.errors import StorageUnavailableError

def away(request):
    raise StorageUnavailableError("away")

def wrong(request):
    return "no store"

def fails(request):
    return request.nothing

def lacks(request):
    import zstandard_of_theirs
"""


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Installs a package in this process alone: its name, and the entry points of one group."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "theirs.py").write_text(PACKAGE)

    def install(package: str, group: str, *entries: str, requires: str = "") -> None:
        folder = tmp_path / f"{package}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n{requires}\n")
        (folder / "entry_points.txt").write_text("\n".join([f"[{group}]", *entries]))
        extensions._installed_entries.cache_clear()

    yield install
    extensions._installed_entries.cache_clear()


def open_store(uri: str, home: Path) -> object:
    """The under-store at a URI."""
    return open_backend(uri, "under", Settings(home=home))  # type: ignore[call-arg]


def test_the_error_of_a_broken_opener_names_its_package(add: Callable[..., None], tmp_path: Path) -> None:
    """Whatever it does wrong, no traceback is shown; its own error about the store is raised as it is."""
    add(
        "theirs", "springline.stores",
        "away = theirs:away", "wrong = theirs:wrong", "fails = theirs:fails", "gone = theirs:gone",
        "lost = elsewhere:x",
    )  # fmt: skip
    with pytest.raises(StorageUnavailableError, match=r"^away$"):
        open_store("away://x", tmp_path)
    for scheme, message in (
        ("wrong", "the opener of 'wrong' returned str instead of an UnderStore"),
        ("fails", "theirs:fails of the package theirs failed: AttributeError: .* install another version"),
        ("gone", "theirs:gone of the package theirs failed: AttributeError"),
        ("lost", "needs the Python package elsewhere: pip install elsewhere"),
    ):
        with pytest.raises(UsageError, match=f"^under_uri '{scheme}://x'.*{message}"):
            open_store(f"{scheme}://x", tmp_path)


def test_the_error_of_a_missing_package_names_the_extra_that_brings_it(
    add: Callable[..., None], tmp_path: Path
) -> None:
    """Of the package that adds the store, by what its metadata say."""
    requires = "Requires-Dist: zstandard-of.theirs>=1; extra == 'fast'\nProvides-Extra: fast"
    add("their-stores", "springline.stores", "lacks = theirs:lacks", requires=requires)
    with pytest.raises(UsageError, match=r"pip install 'their-stores\[fast\]'$"):
        open_store("lacks://x", tmp_path)


@pytest.mark.parametrize(("module", "extra"), [("hdfs_native", "hdfs"), ("alluxio", "alluxio"), ("requests", "hdfs")])
def test_the_extras_of_springline_are_named_too(module: str, extra: str) -> None:
    """`requests` is needed by both: the one that is asked for is named."""
    (entry,) = extensions._installed_entries(extensions.STORES.group)[extra]
    assert extensions._remedy(entry, module) == f"pip install 'springline[{extra}]'"


def test_a_name_that_two_packages_add_is_nobodys(add: Callable[..., None], tmp_path: Path) -> None:
    """Which one is meant is ambiguous; both are named."""
    add("theirs", "springline.stores", "file = theirs:away")
    with pytest.raises(UsageError, match=r"'file' is provided by springline .* and theirs .*; uninstall all but one"):
        open_store(f"file://{tmp_path}", tmp_path)


def test_a_policy_of_another_name_is_refused(add: Callable[..., None], tmp_path: Path) -> None:
    """It would be shown by one name and selected by another."""
    add("theirs", "springline.policies", "mine = theirs:wrong")
    with pytest.raises(
        UsageError, match="policy 'mine': its package returned 'no store', which is not a Policy of that name"
    ):
        load_policy(Settings(home=tmp_path, policy="mine"))  # type: ignore[call-arg]


def test_options_are_of_the_query_and_of_the_settings_and_never_shown(tmp_path: Path) -> None:
    """What the settings say goes before; a kind that has none refuses each by name, without its content."""
    settings = Settings(home=tmp_path, under_options='{"token": "hidden", "b": "2"}')  # type: ignore[call-arg, arg-type]
    assert "hidden" not in repr(settings) and "hidden" not in str(settings.under_options)
    with pytest.raises(UsageError, match="has no option 'a'; it has no options") as refused:
        open_backend(f"file://{tmp_path}?a=1", "under", settings)
    assert "hidden" not in str(refused.value)
