"""A store in SQLite passes the suite that every store has to pass."""

from pathlib import Path

import pytest
from springline_sqlite import SqliteBackend

from springline.errors import StorageUnavailableError
from springline.testing import StoreSuite


class TestSqlite(StoreSuite):
    @pytest.fixture
    def backend(self, tmp_path):
        return SqliteBackend(tmp_path / "large.db")

    @pytest.fixture
    def tiny(self, tmp_path):
        return SqliteBackend(tmp_path / "tiny.db", capacity=self.tiny_bytes)

    @pytest.fixture
    def refusing(self, tmp_path):
        return SqliteBackend(tmp_path / "no folder" / "refusing.db")

    def write_as_engine(self, uri, name, content):
        file, _, location = uri.removeprefix("sqlite://").partition(".db/")
        SqliteBackend(Path(f"{file}.db"))._put("REPLACE", f"{location}/{name}", content)

    def test_a_database_that_was_used_is_not_created_again(self, tmp_path):
        """Its disk is not mounted: nothing is missing from it."""
        used = SqliteBackend(tmp_path / "used.db", in_use=lambda: True)
        assert "is its disk mounted" in used.unavailable_reason()
        with pytest.raises(StorageUnavailableError):
            used.exists("a/@1")
        assert not (tmp_path / "used.db").exists()
