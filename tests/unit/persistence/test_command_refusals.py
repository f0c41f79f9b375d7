"""What the command line of datasets refuses: in one line that says what to change, and with exit status 2."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from persistence import cli


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a refused command prints."""
    monkeypatch.setattr(sys, "argv", ["persistence", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = capsys.readouterr().err
    assert ended.value.code == 2 and "Traceback" not in told
    return told


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("CATALOG_URL", "postgresql+psycopg://u:p@127.0.0.1:1/x", "127.0.0.1:1/x does not answer: .*is it running?"),
        (
            "CATALOG_URL",
            "postgresql+pg8000://u:p@h/x",
            r"begins with postgresql\+pg8000://, and pg8000 is not installed",
        ),
        ("CATALOG_URL", "nosuch://u:p@h/x", "is no address of a database: write postgresql"),
        ("RUNNER", "nosuch:make", "SPRINGLINE_RUNNER='nosuch:make'.* No module named 'nosuch'"),
        ("RUNNER", ":make", "SPRINGLINE_RUNNER=':make'.* cannot be imported"),
        ("RUNNER", "persistence.runner", "SPRINGLINE_RUNNER='persistence.runner'.* has no such factory"),
        ("RUNNER", "persistence.runner:mak", "persistence.runner has no such factory"),
        ("CATALOG_PATIENCE", "-1", "SPRINGLINE_CATALOG_PATIENCE: .* greater than or equal to 0"),
        ("POLICY", "lru", "SPRINGLINE_POLICY: policy 'lru' is not one of paper, "),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_in_one_line(
    setting: str, value: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to write instead, or what is missing."""
    monkeypatch.setenv("SPRINGLINE_CATALOG_PATIENCE", "0")
    monkeypatch.setenv(f"SPRINGLINE_{setting}", value)
    said = refused(monkeypatch, capsys, "status")
    assert said.startswith("persistence: ")
    assert re.search(told, said, re.DOTALL)


def test_a_place_without_files_is_not_adopted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The place is named as it was given."""
    said = refused(monkeypatch, capsys, "adopt", "a/b", "nowhere")
    assert said == "persistence: nowhere: there is no such folder in the under-store\n"


@pytest.mark.parametrize("arguments", [("plan", "--limit", "-1"), ("plan", "--limit", "0"), ("evict", "--bytes", "-1")])
def test_a_number_out_of_its_range_is_refused(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is looked at."""
    assert f"Invalid value for '{arguments[1]}'" in refused(monkeypatch, capsys, *arguments)
