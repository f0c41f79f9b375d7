"""Files in which stream jobs are declared."""

from __future__ import annotations

from pathlib import Path


def written(folder: Path, text: str) -> Path:
    """A file of declarations."""
    file = folder / "streams.toml"
    file.write_text(text)
    return file
