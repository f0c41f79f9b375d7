"""Commands for the catalog's database: an integrity check, and a consistent backup."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from springline.persistence.commands.arguments import EXIT_CONDITION_FAILED, Json, platform_session
from springline.persistence.errors import PersistenceError, UsageError
from springline.persistence.private_files import create_private_file
from springline.persistence.settings import Settings
from springline.persistence.text.formatting import format_bytes, format_count, format_list
from springline.persistence.text.redaction import redact_secrets
from springline.persistence.text.terminal import print, print_json, print_result, progress

_MAX_FAULTS = 20


def check(as_json: Json = False) -> None:
    """Check the catalog: its database responds, is intact (SQLite), and how many generations it has in each state.

    Use `springline dataset recover --dry-run` to check that the copies it names exist. Exit
    status 3: the database is damaged.
    """
    with progress("checking the catalog", quiet=as_json), platform_session() as platform:
        address = redact_secrets(platform.settings.catalog_address.render_as_string())
        file = _catalog_file(platform.settings)
        faults = _check_integrity(file) if file else []
        phases = platform.catalog.count_by_phase()
        clock = platform.catalog.now()
    if as_json:
        print_json({"catalog": address, "generations": phases, "faults": faults, "clock": clock})
    else:
        print(f"{address}: {', '.join(f'{count:,} {phase}' for phase, count in phases.items()) or 'empty'}")
        sound = "; the database is intact" if file and not faults else ""
        print(f"{format_count(sum(phases.values()), 'generation')} in all{sound}")
        for fault in faults:
            print(f"damaged: {fault}")
    if faults:
        raise typer.Exit(EXIT_CONDITION_FAILED)


def backup(
    file: Annotated[Path, typer.Argument(help="Target file; must not exist yet")],
    as_json: Json = False,
) -> None:
    """Copy the catalog's SQLite database to a file, consistently, also while it is in use.

    Back up a catalog in PostgreSQL with its own tools, such as pg_dump.
    """
    settings = Settings()
    source = _catalog_file(settings)
    if source is None:
        address = redact_secrets(settings.catalog_address.render_as_string())
        raise UsageError(
            f"the catalog is in {address}, not in SQLite; back it up with that database's tools, such as pg_dump"
        )
    if not source.is_file():
        raise PersistenceError(f"there is no catalog at {source}; see SPRINGLINE_CATALOG_URL and SPRINGLINE_HOME")
    if file.exists():
        raise UsageError(f"{file} already exists and is not overwritten: name another file")
    if not file.absolute().parent.is_dir():
        raise UsageError(f"{file}: the folder {file.absolute().parent} does not exist; create it first")
    partial = file.with_name(f"{file.name}.half")
    try:
        with progress(f"copying {source}", quiet=as_json):
            _copy(source, create_private_file(partial))
            if faults := _check_integrity(partial):
                raise PersistenceError(
                    f"the copy of {source} is damaged: {format_list(faults)}; the catalog itself is damaged"
                )
        partial.rename(file)
    except (OSError, sqlite3.Error) as error:
        raise PersistenceError(f"{source} could not be copied to {file}: {error}") from error
    finally:
        partial.unlink(missing_ok=True)
    size = file.stat().st_size
    print_result(as_json, {"file": str(file), "bytes": size}, f"{file}: {format_bytes(size)}, backup of the catalog")


def _catalog_file(settings: Settings) -> Path | None:
    """Return the file of the catalog; None if it is on a server."""
    url = settings.catalog_address
    return Path(url.database or "") if url.get_backend_name() == "sqlite" else None


def _copy(source: Path, target: Path) -> None:
    with closing(_connect_read_only(source)) as origin, closing(sqlite3.connect(target)) as copy:
        origin.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # a single file that can be read from a read-only folder


def _check_integrity(file: Path) -> list[str]:
    """Return the faults of an SQLite database, in SQLite's own words; empty if there are none."""
    try:
        with closing(_connect_read_only(file)) as connection:
            rows = connection.execute(f"PRAGMA quick_check({_MAX_FAULTS})").fetchall()
    except sqlite3.DatabaseError as error:
        return [str(error)]
    return [str(row[0]) for row in rows if row[0] != "ok"]


def _connect_read_only(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=60)
