"""SQL over the stored results of a job, by DuckDB: one view per query over all Parquet files with its results.

A query can read these files and no others, and can change nothing. DuckDB could read and write any file of this
machine, load extensions and attach databases, so all of that is locked before the SQL is parsed, and the SQL must be a
single SELECT. A SELECT can write too (`WITH x AS (COPY …)`), so DuckDB accesses the files by a read-only file system.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from springline.persistence.backends.listing import checked_below
from springline.persistence.engine.store import OpenRead
from springline.persistence.model.dataset import Phase
from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.errors import InvalidSqlError, NoSinkError
from springline.spark_jobs.streaming.windows.queryable import Queryable
from springline.spark_jobs.streaming.windows.sink.parquet import results_prefix
from springline.spark_jobs.streaming.windows.sink.read_only_files import PROTOCOL, ReadOnlyFiles

_LOCAL = "file://"
_MAX_DATASETS = 1_000_000  # datasets of a job


def query_results(platform: Platform, job: Queryable, sql: str) -> pa.Table:
    """Answer `sql` from all stored results of a job.

    While it runs, the datasets are neither evicted nor retired; files of a store that is no local folder are copied.
    Raises `NoSinkError`, `InvalidSqlError`, and the errors of reading datasets.
    """
    datasets = platform.catalog.find(
        prefix=results_prefix(job.name), phase=Phase.COMMITTED, superseded=False, limit=_MAX_DATASETS
    )
    if not datasets:
        when = (
            "they are written at intervals, and at the job's end"
            if job.sink
            else f'set sink = "parquet" in the declaration of the job {job.name!r}'
        )
        raise NoSinkError(f"{job.name}: no results are stored yet; {when}")
    files: dict[str, list[Path]] = {}
    with ExitStack() as stack:
        copies = Path(stack.enter_context(TemporaryDirectory(prefix="springline-results-")))
        for path in sorted(dataset.ref.path for dataset in datasets):
            reading = stack.enter_context(platform.store.read(path))
            for query, names in _files_of(reading).items():
                files.setdefault(query, []).extend(_local_file(platform, reading, name, copies) for name in names)
        return _answer(job.name, files, sql, copies)


def _files_of(reading: OpenRead) -> dict[str, Sequence[str]]:
    """Return the files of each query in a dataset, from its report."""
    queries = (reading.dataset.report or {})["queries"]
    assert isinstance(queries, dict)
    return {query: each["files"] for query, each in queries.items()}


def _local_file(platform: Platform, reading: OpenRead, name: str, copies: Path) -> Path:
    """Return a local path of a dataset's file; raises `InvalidPathError` for a name outside the dataset."""
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


def _answer(job: str, files: dict[str, list[Path]], sql: str, scratch: Path) -> pa.Table:
    names = {query: [f"{query}/{number}.parquet" for number in range(len(paths))] for query, paths in files.items()}
    files_by_name = {name: path for query in files for name, path in zip(names[query], files[query], strict=True)}
    views = _views(files)
    notes = [f"Stored results: {', '.join(sorted(views.values()))}"]
    with duckdb.connect() as database:
        database.register_filesystem(ReadOnlyFiles(files_by_name))
        database.execute("SET TimeZone = 'UTC'")
        for query, view in views.items():
            try:
                schemas = {name: pq.read_schema(path) for name, path in zip(names[query], files[query], strict=True)}
                # CREATE VIEW takes no parameters.
                database.execute(f"CREATE VIEW {_identifier(view)} AS {_select(schemas)}")
            except (duckdb.Error, pa.ArrowException, OSError) as error:  # the other queries can still be asked
                notes.append(f"{view} cannot be read: {str(error).strip()}")
                continue
            if changed := {name: kinds for name, kinds in _types_of(schemas).items() if len(kinds) > 1}:
                columns = ", ".join(f"{name} ({', '.join(map(str, kinds))})" for name, kinds in changed.items())
                notes.append(
                    f"Text in {view}, since its type has changed: {columns}; CAST it to the type that you need"
                )
        _lock(database, files_by_name, scratch)
        try:
            kinds = [statement.type for statement in database.extract_statements(sql)]
            if kinds != [duckdb.StatementType.SELECT]:
                raise InvalidSqlError(
                    f"{job}: expected a single SELECT … FROM one of {', '.join(sorted(views.values()))}"
                )
            answer = database.sql(sql)
            return answer.to_arrow_table()
        except (duckdb.Error, OSError) as error:
            raise InvalidSqlError("\n".join([f"{job}: {str(error).strip()}", *notes])) from error


def _types_of(schemas: Mapping[str, pa.Schema]) -> dict[str, list[pa.DataType]]:
    """Return the types that each column has in some files, in order; SQL does not distinguish the case of names."""
    types: dict[str, list[pa.DataType]] = {}
    for field in itertools.chain.from_iterable(schemas.values()):
        kinds = types.setdefault(field.name.casefold(), [])
        if field.type not in kinds:
            kinds.append(field.type)
    return types


def _select(schemas: Mapping[str, pa.Schema]) -> str:
    """Return the SELECT over all files of a query: a column that has several types in them is text.

    No other type has the values of all: a double cannot hold each whole number, nor a number each condition.
    """
    types = _types_of(schemas)
    files: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, schema in schemas.items():
        changed = tuple((field.name, str(field.type)) for field in schema if len(types[field.name.casefold()]) > 1)
        files.setdefault(changed, []).append(name)
    selects = []
    for changed, names in files.items():
        columns = [_identifier(column) for column, _ in changed]
        texts = ", ".join(f"CAST({column} AS VARCHAR) AS {column}" for column in columns)
        replaced = f" REPLACE ({texts})" if texts else ""
        selects.append(f"SELECT *{replaced} FROM read_parquet([{_listed(names)}], union_by_name = true)")
    return " UNION ALL BY NAME ".join(selects)


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _views(queries: Iterable[str]) -> dict[str, str]:
    """Return the view name of each query: its name, with a number if another name differs only in case.

    SQL does not distinguish such names.
    """
    views: dict[str, str] = {}
    used_names: set[str] = set()
    for query in sorted(queries):
        names = itertools.chain([query], (f"{query}_{number}" for number in itertools.count(2)))
        views[query] = next(name for name in names if name.casefold() not in used_names)
        used_names.add(views[query].casefold())
    return views


def _lock(database: duckdb.DuckDBPyConnection, names: Iterable[str], scratch: Path) -> None:
    """Restrict DuckDB to these files, and to `scratch` for data that exceeds memory; it cannot be undone."""
    database.execute(f"SET temp_directory = {_quoted(str(scratch))}")
    database.execute(f"SET allowed_paths = [{_listed(names)}]")
    database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(_quoted(f"{PROTOCOL}://{name}") for name in names)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
