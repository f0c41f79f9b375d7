"""SQL over the kept results of a job, by DuckDB: a view for each query over all parquet files that hold its results.

Whoever asks reads these files and no other, and changes nothing: DuckDB could read and write any file of this machine,
load extensions and attach databases, so all of that is locked before the SQL is looked at, and of SQL there is one
SELECT. A SELECT can write too (`WITH x AS (COPY …)`), so the files are handed in by a file system that cannot.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pyarrow as pa

from springline.persistence.backends.listing import checked_below
from springline.persistence.engine.store import Reading
from springline.persistence.model.dataset import Phase
from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.errors import InvalidSqlError, NoSinkError
from springline.spark_jobs.streaming.windows.queryable import Queryable
from springline.spark_jobs.streaming.windows.sink.parquet import folder_of
from springline.spark_jobs.streaming.windows.sink.read_only_files import PROTOCOL, ReadOnlyFiles

_LOCAL = "file://"
_MOST = 1_000_000  # datasets of a job


def ask_kept(platform: Platform, job: Queryable, sql: str) -> pa.Table:
    """Answer `sql` from all kept results of a job.

    Raises `NoSinkError`, `InvalidSqlError`, and what reading datasets raises.

    While it is answered the datasets are neither evicted nor retired; what is in a store that is no folder is copied.
    """
    found = platform.catalog.find(prefix=folder_of(job.name), phase=Phase.COMMITTED, superseded=False, limit=_MOST)
    if not found:
        when = (
            "they are kept at intervals, and at the job's end"
            if job.keep
            else f'write keep = "parquet" at the job {job.name!r} in the file that declares it'
        )
        raise NoSinkError(f"{job.name}: no results are kept yet; {when}")
    files: dict[str, list[Path]] = {}
    with ExitStack() as held:
        copies = Path(held.enter_context(TemporaryDirectory(prefix="springline-kept-")))
        for path in sorted(dataset.ref.path for dataset in found):
            reading = held.enter_context(platform.store.read(path))
            for query, names in _files_of(reading).items():
                files.setdefault(query, []).extend(_at_hand(platform, reading, name, copies) for name in names)
        return _answered(job.name, files, sql, copies)


def _files_of(reading: Reading) -> dict[str, Sequence[str]]:
    """The files of each query in a dataset, as its report tells."""
    told = (reading.dataset.report or {})["queries"]
    assert isinstance(told, dict)
    return {query: each["files"] for query, each in told.items()}


def _at_hand(platform: Platform, reading: Reading, name: str, copies: Path) -> Path:
    """A file of a dataset in this machine's file system; raises `InvalidPathError` for a name that leads out of it."""
    name = checked_below(reading.uri, name)
    if reading.uri.startswith(_LOCAL):
        return Path(reading.uri.removeprefix(_LOCAL)) / name
    dataset = reading.dataset
    backend = platform.cache if dataset.in_cache else platform.under
    location = dataset.cache_location if dataset.in_cache else dataset.under_location
    copy = copies / dataset.ref.path.rpartition("/")[2] / name
    copy.parent.mkdir(exist_ok=True)
    with copy.open("wb") as file:
        for chunk in backend.chunks(location, name):
            file.write(chunk)
    return copy


def _answered(job: str, files: dict[str, list[Path]], sql: str, scratch: Path) -> pa.Table:
    names = {query: [f"{query}/{number}.parquet" for number in range(len(paths))] for query, paths in files.items()}
    seen = {name: path for query in files for name, path in zip(names[query], files[query], strict=True)}
    views = _views(files)
    with duckdb.connect() as database:
        database.register_filesystem(ReadOnlyFiles(seen))
        database.execute("SET TimeZone = 'UTC'")
        for query in files:
            # A view cannot be prepared with parameters.
            name = views[query].replace('"', '""')
            database.execute(
                f'CREATE VIEW "{name}" AS SELECT * FROM read_parquet([{_listed(names[query])}], union_by_name = true)'
            )
        _lock(database, seen, scratch)
        known = ", ".join(sorted(views.values()))
        try:
            kinds = [statement.type for statement in database.extract_statements(sql)]
            if kinds != [duckdb.StatementType.SELECT]:
                raise InvalidSqlError(f"{job}: only one SELECT is answered here; write SELECT … FROM one of {known}")
            answer = database.sql(sql)
            return answer.to_arrow_table()
        except (duckdb.Error, OSError) as error:
            raise InvalidSqlError(f"{job}: {str(error).strip()}\nResults are kept of: {known}") from error


def _views(queries: Iterable[str]) -> dict[str, str]:
    """The table of each query: its own name, with a number where another one differs only in small and large letters.

    To SQL such names are the same.
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for query in sorted(queries):
        names = itertools.chain([query], (f"{query}_{number}" for number in itertools.count(2)))
        found[query] = next(name for name in names if name.casefold() not in taken)
        taken.add(found[query].casefold())
    return found


def _lock(database: duckdb.DuckDBPyConnection, names: Iterable[str], scratch: Path) -> None:
    """Let nothing be opened any more but these files, and what does not fit into memory in `scratch`; for good."""
    database.execute(f"SET temp_directory = {_quoted(str(scratch))}")
    database.execute(f"SET allowed_paths = [{_listed(names)}]")
    database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(_quoted(f"{PROTOCOL}://{name}") for name in names)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
