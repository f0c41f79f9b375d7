"""What installed packages bring by entry points: listed without being imported, and what is wrong in words."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from springline.persistence import extensions
from springline.spark_jobs.streaming.backpressure.admission import MODES, UnlimitedAdmission, make_admission
from springline.spark_jobs.streaming.join.routing.strategies import STRATEGIES

Install = Callable[[str, str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package with an entry point among the modes, and a module."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(package: str, entry: str, code: str) -> None:
        (tmp_path / f"{package}.py").write_text(code)
        dist_info = tmp_path / f"{package}-1.0.dist-info"
        dist_info.mkdir()
        (dist_info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (dist_info / "entry_points.txt").write_text(f"[{MODES.group}]\n{entry}\n")
        extensions._installed_entries.cache_clear()

    yield install
    extensions._installed_entries.cache_clear()


def test_the_baselines_come_last_and_are_told_as_such() -> None:
    """They lie apart from the product."""
    assert STRATEGIES.names == ("djb", "heavy-split", "heavy-split-work", "hash", "jb", "jb6")
    assert STRATEGIES.baselines == {"hash", "jb", "jb6"} and MODES.baselines == {"stepwise-literal"}
    assert MODES.format_names() == "off, predictive, stepwise; baselines, for comparison: stepwise-literal"


def test_a_package_brings_a_mode_which_is_imported_when_it_is_named(install: Install) -> None:
    """And not when names are listed."""
    install(
        "gentle_mode",
        "gentle = gentle_mode:Gentle",
        f"from {UnlimitedAdmission.__module__} import UnlimitedAdmission as Gentle\n",
    )
    assert MODES.names == ("gentle", "off", "predictive", "stepwise", "stepwise-literal")
    assert "gentle_mode" not in sys.modules
    assert isinstance(make_admission("gentle", "count"), UnlimitedAdmission)
