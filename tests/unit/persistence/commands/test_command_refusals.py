"""What the command line of datasets refuses: in one line that says what to change; exit status 2 is for misuse."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from springline.persistence.platform import Platform
from springline.testing.lines import make_dataset as make
from tests.support.commands import refused


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path))


MODULE = "springline.persistence.engine.runner"


@pytest.mark.parametrize(
    ("setting", "value", "expected_message"),
    [
        (
            "CATALOG_URL",
            "postgresql+pg8000://u:p@h/x",
            r"begins with postgresql\+pg8000://, and pg8000 is not installed",
        ),
        ("CATALOG_URL", "nosuch://u:p@h/x", "is not a database URL: write postgresql"),
        ("RUNNER", "nosuch:make", "SPRINGLINE_RUNNER='nosuch:make'.* No module named 'nosuch'"),
        ("RUNNER", ":make", "SPRINGLINE_RUNNER=':make'.* cannot be imported"),
        ("RUNNER", MODULE, f"SPRINGLINE_RUNNER='{MODULE}'.* has no such function"),
        ("RUNNER", f"{MODULE}:mak", f"{MODULE} has no such function"),
        ("CATALOG_TIMEOUT", "-1", "SPRINGLINE_CATALOG_TIMEOUT: .* greater than or equal to 0"),
        ("POLICY", "lru", "policy 'lru': no installed package provides 'lru'; installed: paper, .*; install a package"),
        ("POLICY_WEIGHTS", "-4,-2", "POLICY_WEIGHTS: write four numbers separated by commas, such as -4,-2,1,0.1"),
        ("CACHE_CAPACITY", "8XB", "CACHE_CAPACITY: not a size: write a number of bytes, or a number with a unit"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_in_one_line(
    setting: str, value: str, expected_message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what to write instead, or what is missing."""
    monkeypatch.setenv("SPRINGLINE_CATALOG_TIMEOUT", "0")
    monkeypatch.setenv(f"SPRINGLINE_{setting}", value)
    message = refused("dataset", "recover")  # it runs operations, so it loads the runner too
    assert message.startswith("springline: ")
    assert re.search(expected_message, message, re.DOTALL)


def test_a_catalog_that_is_away_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command was right; exit status 1."""
    monkeypatch.setenv("SPRINGLINE_CATALOG_TIMEOUT", "0")
    monkeypatch.setenv("SPRINGLINE_CATALOG_URL", "postgresql+psycopg://u:p@127.0.0.1:1/x")
    message = refused("dataset", "list", status=1)
    assert re.search("127.0.0.1:1/x does not answer: .*is it running?", message, re.DOTALL)


def test_to_evict_nothing_in_particular_is_refused() -> None:
    """Rather than ignored: a user who types that means something."""
    message = refused("dataset", "evict")
    assert message.startswith("springline: evict: give either dataset paths or the bytes to free")


@pytest.mark.parametrize("command", ["explain", "evict"])
def test_a_path_that_never_was_is_refused_with_the_nearest(
    command: str, open_at: Callable[..., Platform], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether anything like it is there or not."""
    platform = open_at(home=Path(os.environ["SPRINGLINE_HOME"]))
    make(platform, "etl/clean", "load")
    monkeypatch.setenv("SPRINGLINE_CACHE_URI", platform.settings.cache_uri)
    near = refused("dataset", command, "etl/claen")
    assert near == "springline: etl/claen: no dataset was ever written to this path; did you mean etl/clean?\n"
    assert "`springline dataset list` shows all datasets" in refused("dataset", command, "other/thing")


@pytest.mark.parametrize(
    "arguments",
    [("queue", "list", "--limit", "-1"), ("queue", "list", "--limit", "0"), ("dataset", "evict", "--bytes", "-1")],
)
def test_a_number_out_of_its_range_is_refused(arguments: tuple[str, ...]) -> None:
    """Before anything is read."""
    assert f"Invalid value for '{arguments[2]}'" in refused(*arguments)
