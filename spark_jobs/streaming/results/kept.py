"""SQL over the kept results of a job, by DuckDB: a view for each query over all parquet files that hold its results.

Whoever asks reads these files and no other: DuckDB could read and write any file of this machine, load extensions and
attach databases, so all of that is locked before the SQL is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pyarrow as pa

from persistence.backends.tree import checked_below
from persistence.model import Phase
from persistence.platform import Platform
from persistence.store import Reading
from spark_jobs.streaming.errors import BadSql, NothingKept
from spark_jobs.streaming.results.keeper import folder_of
from spark_jobs.streaming.windows.job import WindowsJob

_LOCAL = "file://"
_MOST = 1_000_000  # datasets of a job


def ask_kept(platform: Platform, job: WindowsJob, sql: str) -> pa.Table:
    """Answer `sql` from all kept results of a job; raises `NothingKept`, `BadSql`, and what reading datasets raises.

    While it is answered the datasets are neither evicted nor retired; what is in a store that is no folder is copied.
    """
    found = platform.catalog.find(prefix=folder_of(job.name), phase=Phase.COMMITTED, superseded=False, limit=_MOST)
    if not found:
        when = (
            "they are kept at intervals, and at the job's end"
            if job.keep
            else f'write keep = "parquet" at the job {job.name!r} in the file that declares it'
        )
        raise NothingKept(f"{job.name}: no results are kept yet; {when}")
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
    """A file of a dataset in this machine's file system; raises `InvalidPath` for a name that leads out of it."""
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
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        for query, paths in files.items():
            # A view cannot be prepared with parameters.
            name = query.replace('"', '""')
            database.execute(
                f'CREATE VIEW "{name}" AS SELECT * FROM read_parquet([{_listed(paths)}], union_by_name = true)'
            )
        _lock(database, [path for paths in files.values() for path in paths], scratch)
        try:
            answer = database.sql(sql)
            if answer is None:
                raise BadSql(f"{job}: this answers nothing; write SELECT … FROM one of {', '.join(sorted(files))}")
            return answer.to_arrow_table()
        except duckdb.Error as error:
            known = ", ".join(sorted(files))
            raise BadSql(f"{job}: {str(error).strip()}\nResults are kept of: {known}") from error


def _lock(database: duckdb.DuckDBPyConnection, files: Iterable[Path], scratch: Path) -> None:
    """Let nothing be opened any more but these files, and what does not fit into memory in `scratch`; for good."""
    database.execute(f"SET temp_directory = {_quoted(scratch)}")
    database.execute(f"SET allowed_paths = [{_listed(files)}]")
    database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")


def _listed(paths: Iterable[Path]) -> str:
    return ", ".join(_quoted(path) for path in paths)


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
