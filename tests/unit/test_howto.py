"""docs/howto.md: its packages are those that tests install and use; its commands are run with all documents'."""

from __future__ import annotations

import pytest

from docs.console import files_in
from springline.persistence.profile import project_folder
from tests.support.extension import FOLDER

FILES = files_in((project_folder() / "docs" / "howto.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("package", ["store", "policy", "stream_kind"])
def test_the_packages_that_are_shown_are_those_that_are_installed(package: str) -> None:
    """Each file but their README, as it lies in tests/extensions, where tests install and use them."""
    shown = {name: content for name, content in FILES.items() if name.startswith(f"{package}/")}
    paths = (path for path in (FOLDER / package).rglob("*") if path.suffix in (".py", ".toml"))
    assert shown == {path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8") for path in paths}
