"""A store in SQLite passes the suite that every under-store has to pass."""

from pathlib import Path

import pytest
from springline_sqlite import SqliteBackend

from springline.testing import UnderStoreSuite


class TestSqlite(UnderStoreSuite):
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

    def in_use(self, backend):
        return SqliteBackend(backend.file, in_use=lambda: True)

    def empty(self, backend):
        backend.file.unlink()

    def put_mark(self, backend):
        backend.file.touch()
