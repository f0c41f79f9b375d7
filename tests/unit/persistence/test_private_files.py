"""Files for their owner alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from springline.persistence.private_files import write_private, write_private_once


@pytest.mark.parametrize("write", [write_private, write_private_once])
def test_a_secret_is_for_its_owner_alone_whatever_the_mask(tmp_path: Path, write) -> None:
    """And nothing else is left beside it."""
    before = os.umask(0)
    try:
        write(tmp_path / "key", "hidden")
    finally:
        os.umask(before)
    assert (tmp_path / "key").read_text() == "hidden"
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["key"]


def test_what_is_there_stays_or_is_replaced(tmp_path: Path) -> None:
    """A password that was handed out is not replaced; the one of today's start is."""
    for write in (write_private, write_private_once):
        write(tmp_path / "key", write.__name__)
    assert (tmp_path / "key").read_text() == "write_private"
    write_private(tmp_path / "key", "another")
    assert (tmp_path / "key").read_text() == "another"


def test_whoever_is_killed_while_writing_leaves_no_half_of_it(tmp_path: Path, monkeypatch) -> None:
    """An empty password would be taken for one ever after."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    for name in ("replace", "hardlink_to"):
        monkeypatch.setattr(Path, name, killed)
    for write in (write_private, write_private_once):
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path / "key", "hidden")
    assert not (tmp_path / "key").exists()
