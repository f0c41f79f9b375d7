"""Files in which stream jobs are declared."""

from __future__ import annotations

from pathlib import Path


def join_sides(job: str, left: str, right: str) -> str:
    """The tables of a join's sides, which read these topics and have the field `k`."""
    return "".join(
        f'[{job}.{side}]\ntopic = "{topic}"\nfields = [["k", "int"]]\n'
        for side, topic in (("left", left), ("right", right))
    )


def written(folder: Path, text: str) -> Path:
    """A file of declarations."""
    file = folder / "streams.toml"
    file.write_text(text)
    return file
