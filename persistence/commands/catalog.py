"""Commands about the catalog's database: whether it is sound, and a copy of it in one piece."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy.engine import make_url

from springline.persistence.commands.arguments import NOT_SO, Json, opened
from springline.persistence.errors import PersistenceError, UsageError
from springline.persistence.private_files import private_file
from springline.persistence.settings import Settings
from springline.persistence.text.formatting import counted, say_bytes, say_list
from springline.persistence.text.redaction import redacted
from springline.persistence.text.terminal import print, print_json, print_result, progress

_MOST_FAULTS = 20


def check(as_json: Json = False) -> None:
    """Check the catalog: its database answers, is sound (SQLite), and how many generations it has in each state.

    Whether the copies that it names are there is another question: `springline dataset recover --dry-run`. Exit
    status 3: the database is damaged.
    """
    with progress("checking the catalog", quiet=as_json), opened() as platform:
        address = redacted(make_url(platform.settings.catalog_address).render_as_string())
        file = _file_of(platform.settings)
        faults = _faults(file) if file else []
        phases = platform.catalog.phases()
        clock = platform.catalog.now()
    if as_json:
        print_json({"catalog": address, "generations": phases, "faults": faults, "clock": clock})
    else:
        print(f"{address}: {', '.join(f'{count:,} {phase}' for phase, count in phases.items()) or 'empty'}")
        sound = "; the database is sound" if file and not faults else ""
        print(f"{counted(sum(phases.values()), 'generation')} in all{sound}")
        for fault in faults:
            print(f"damaged: {fault}")
    if faults:
        raise typer.Exit(NOT_SO)


def backup(
    file: Annotated[Path, typer.Argument(help="Where to; it must not be there yet")],
    as_json: Json = False,
) -> None:
    """Copy the catalog's SQLite database into a file, in one piece, also while it is used.

    A catalog in PostgreSQL is copied by its own tools, pg_dump among them.
    """
    settings = Settings()
    source = _file_of(settings)
    if source is None:
        address = redacted(make_url(settings.catalog_address).render_as_string())
        raise UsageError(f"the catalog is in {address}, not in SQLite; its own tools copy it, such as pg_dump")
    if not source.is_file():
        raise PersistenceError(f"there is no catalog at {source}; see SPRINGLINE_CATALOG_URL and SPRINGLINE_HOME")
    if file.exists():
        raise UsageError(f"{file} is there already, and nothing is overwritten: name another file")
    if not file.absolute().parent.is_dir():
        raise UsageError(f"{file}: there is no folder {file.absolute().parent}; make it first")
    half = file.with_name(f"{file.name}.half")
    try:
        with progress(f"copying {source}", quiet=as_json):
            _copy(source, private_file(half))
            if faults := _faults(half):
                raise PersistenceError(f"the copy of {source} is damaged: {say_list(faults)}; so is the catalog")
        half.rename(file)
    except (OSError, sqlite3.Error) as error:
        raise PersistenceError(f"{source} could not be copied to {file}: {error}") from error
    finally:
        half.unlink(missing_ok=True)
    size = file.stat().st_size
    print_result(as_json, {"file": str(file), "bytes": size}, f"{file}: {say_bytes(size)}, a copy of the catalog")


def _file_of(settings: Settings) -> Path | None:
    """The file of the catalog; None where it is on a server."""
    url = make_url(settings.catalog_address)
    return Path(url.database or "") if url.get_backend_name() == "sqlite" else None


def _copy(source: Path, target: Path) -> None:
    with closing(_opened(source)) as origin, closing(sqlite3.connect(target)) as copy:
        origin.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, that may lie on a folder which is only read


def _faults(file: Path) -> list[str]:
    """What is wrong with a database of SQLite, in its own words; empty: nothing is."""
    try:
        with closing(_opened(file)) as connection:
            rows = connection.execute(f"PRAGMA quick_check({_MOST_FAULTS})").fetchall()
    except sqlite3.DatabaseError as error:
        return [str(error)]
    return [str(row[0]) for row in rows if row[0] != "ok"]


def _opened(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=60)
