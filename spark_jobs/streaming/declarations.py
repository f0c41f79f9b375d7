"""The file that declares jobs, as tables that no kind of job has read yet."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from springline.persistence.text.formatting import format_alternatives
from springline.spark_jobs.streaming.errors import InvalidJobError, UnknownJobError


def read_tables(file: Path) -> Mapping[str, Any]:
    """Return what a file declares by the names of jobs; empty if it does not exist. Raises `InvalidJobError`."""
    if not file.exists():
        return {}
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidJobError(f"{file}: not TOML: {error}") from error


def unknown_job(file: Path, name: str, declared: Collection[str]) -> UnknownJobError:
    """Return the error for an undeclared job name; its message suggests similar names among those `declared`."""
    return UnknownJobError(f"no job {name!r} is declared in {file}; declared: {format_alternatives(name, declared)}")
