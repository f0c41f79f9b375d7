"""The commands about the catalog's database and about settings: a backup in one piece, what is damaged, what is set."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.commands import invoke


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose catalog knows one dataset."""
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SPRINGLINE_CACHE_URI", (tmp_path / "cache").as_uri())
    (tmp_path / "home" / "under" / "given").mkdir(parents=True)
    (tmp_path / "home" / "under" / "given" / "a.txt").write_text("to be\n")
    assert invoke("dataset", "adopt", "a/b", "given").exit_code == 0
    return tmp_path / "home"


def test_a_backup_that_is_made_while_somebody_writes_is_whole(home: Path, tmp_path: Path) -> None:
    """One file, for its owner alone, from which the catalog is put back."""
    with closing(sqlite3.connect(home / "catalog.db")) as busy:
        busy.execute("BEGIN IMMEDIATE")
        output = json.loads(invoke("catalog", "backup", str(tmp_path / "copy.db"), "--json").stdout)
    copy = Path(output["file"])
    assert output["bytes"] == copy.stat().st_size and copy.stat().st_mode & 0o077 == 0
    assert not list(tmp_path.glob("copy.db?*"))
    for file in home.glob("catalog.db*"):
        file.unlink()
    shutil.copy(copy, home / "catalog.db")
    assert [each["dataset"] for each in json.loads(invoke("dataset", "list", "--json").stdout)] == ["a/b@1"]


def test_a_backup_overwrites_nothing_and_says_why_it_cannot_be_made(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is there, a folder that is not, a catalog that is not, or is on a server."""
    there = tmp_path / "copy.db"
    there.write_text("mine")
    assert "already exists" in str(invoke("catalog", "backup", str(there)).exception)
    assert there.read_text() == "mine"
    assert "the folder" in str(invoke("catalog", "backup", str(tmp_path / "no" / "copy.db")).exception)
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path / "other"))
    assert "there is no catalog at" in str(invoke("catalog", "backup", str(tmp_path / "c.db")).exception)
    monkeypatch.setenv("SPRINGLINE_CATALOG_URL", "postgresql+psycopg://ann:geheim@db/catalog")
    error = str(invoke("catalog", "backup", str(tmp_path / "c.db")).exception)
    assert "pg_dump" in error and "geheim" not in error and home.is_dir()


def test_a_catalog_that_is_damaged_is_reported(home: Path) -> None:
    """Exit status 3; a sound one counts its generations."""
    output = json.loads(invoke("catalog", "check", "--json").stdout)
    assert output["generations"] == {"committed": 1} and output["faults"] == []
    assert "the database is intact" in invoke("catalog", "check").stdout
    with closing(sqlite3.connect(home / "catalog.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute("UPDATE sqlite_master SET rootpage = 2 WHERE name = 'ix_generation_open'")
        connection.commit()
    result = invoke("catalog", "check", "--json")
    assert result.exit_code == 3 and json.loads(result.stdout)["faults"]


@pytest.mark.usefixtures("home")
def test_what_a_dataset_is_made_of_and_where_its_files_are_is_shown() -> None:
    """By path, or by generation."""
    output = json.loads(invoke("dataset", "show", "a/b@1", "--json").stdout)
    assert output["under_uri"].endswith("/home/under/given") and output["cache_uri"] is None and output["bytes"] == 6
    assert "under uri" in invoke("dataset", "show", "a/b").stdout
    assert "no dataset was ever written" in str(invoke("dataset", "show", "a/c").exception)


def test_a_setting_is_shown_with_where_it_comes_from_and_without_its_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its variable, or its name in small letters."""
    monkeypatch.setenv("SPRINGLINE_POLICY", "lrc")
    monkeypatch.setenv("SPRINGLINE_HDFS_TOKEN", "hunter2")
    monkeypatch.setenv("SPRINGLINE_CATALOG_URL", "postgresql+psycopg://ann:hunter2@127.0.0.1:9/catalog")
    monkeypatch.setenv("SPRINGLINE_KAFKA_OPTIONS", '{"sasl.password": "hunter2", "acks": "all"}')
    monkeypatch.setenv("SPRINGLINE_SCHEMA_REGISTRY_OPTIONS", '{"basic.auth.user.info": "ann:hunter2"}')
    monkeypatch.setenv("SPRINGLINE_SCHEMA_REGISTRY", "https://ann:hunter2@127.0.0.1:8081")
    assert invoke("config", "get", "SPRINGLINE_POLICY").stdout == "lrc\n"
    output = json.loads(invoke("config", "get", "policy", "--json").stdout)
    assert (output["value"], output["source"]) == ("lrc", "environment")
    for form in ((), ("--json",)):
        listed = invoke("config", "list", *form).stdout
        assert "hunter2" not in listed and "127.0.0.1:9" in listed and "'acks': 'all'" in listed.replace('"', "'")
    assert "did you mean SPRINGLINE_POLICY?" in str(invoke("config", "get", "polcy").exception)
