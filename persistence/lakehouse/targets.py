"""Which datasets go into which tables: the entries of `SPRINGLINE_TABLES`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

from springline.persistence.errors import InvalidPathError, UsageError
from springline.persistence.extensions import TABLE_FORMATS
from springline.persistence.model.dataset import Dataset, validate_path
from springline.persistence.model.path_partition import match_template
from springline.persistence.model.table_uri import split_uri

QUERY = "query"  # field of a table's URI: the query of a stream whose results go there
_NAME = re.compile(r"[\w-]+", re.ASCII)


@dataclass(frozen=True)
class TablePart:
    """The rows of one generation that go into one table.

    Args:
        template: the URI of the table, with fields.
        values: of these fields.
        names: the files that have the rows; None: all files of the generation.
        fields: values by column that the table has in addition.
        is_partitioned: whether a table that is created is to be partitioned by them.
    """

    template: str
    values: Mapping[str, str]
    names: Sequence[str] | None
    fields: Mapping[str, str]
    is_partitioned: bool

    @property
    def uri(self) -> str:
        """The URI of the table; raises `UsageError` if a value would lead elsewhere."""
        for name in _fields_of(self.template):
            if not _NAME.fullmatch(self.values[name]):
                raise UsageError(
                    f"{name} {self.values[name]!r}: a table is named by letters, digits, _ and - only; give it another "
                    f"name, or leave {{{name}}} out of {self.template!r}"
                )
        return self.template.format_map(self.values)


@dataclass(frozen=True)
class TableTarget:
    """The datasets of a path template, and the URI of their table, which may have fields of the path.

    Example:
        >>> target = TableTarget("etl/{ds}/clean", "delta:s3://lake/clean")
        >>> target.covers("etl/2013-01-05/clean"), target.like
        (True, 'etl/%/clean')
    """

    template: str
    uri: str

    @property
    def like(self) -> str:
        """A pattern of SQL, escaped by a backslash, for the paths of the template, and perhaps others."""
        parts = Formatter().parse(self.template)
        return "".join(_escaped(text) + ("" if name is None else "%") for text, name, _, _ in parts)

    def covers(self, path: str) -> bool:
        """Whether the datasets of a path go into the table."""
        return match_template(path, self.template) is not None

    def parts(self, dataset: Dataset) -> list[TablePart]:
        """Return which files of a generation go into which table.

        The results of a stream have files for each query; each goes into a table of its own, whose URI has the query in
        the place of `{query}`.
        """
        fields = match_template(dataset.ref.path, self.template) or {}
        columns = {name: value for name, value in fields.items() if name not in _fields_of(self.uri)}
        queries = _queries_of(dataset)
        if QUERY not in _fields_of(self.uri):
            return [TablePart(self.uri, fields, None, columns, not queries)]
        return [
            TablePart(self.uri, {**fields, QUERY: query}, tuple(of_query["files"]), columns, False)
            for query, of_query in queries.items()
        ]


def _queries_of(dataset: Dataset) -> Mapping[str, Mapping[str, Any]]:
    """Return the queries whose results a generation has, from its report; none if it has no such results."""
    queries: Any = (dataset.report or {}).get("queries")
    return queries if isinstance(queries, Mapping) else {}


def targets_of(tables: Mapping[str, str]) -> tuple[TableTarget, ...]:
    """Return the targets that a setting describes; raises `UsageError`, naming the entry that is wrong.

    Example:
        >>> targets_of({"shop/{ds}/orders": "iceberg:lake.shop.orders"})
        (TableTarget(template='shop/{ds}/orders', uri='iceberg:lake.shop.orders'),)
    """
    targets = tuple(_target_of(template, uri) for template, uri in tables.items())
    templates: dict[str, str] = {}
    for each in targets:
        if other := templates.get(each.uri):
            raise UsageError(
                f"SPRINGLINE_TABLES: {other!r} and {each.template!r} have the same table {each.uri!r}, and would "
                "replace each other's rows: give each a table of its own"
            )
        templates[each.uri] = each.template
    return targets


def _target_of(template: str, uri: str) -> TableTarget:
    where = f"SPRINGLINE_TABLES, {template!r}"
    try:
        fields = _fields_of(template)
        validate_path(template.format_map(dict.fromkeys(fields, "x")))
        name, _ = split_uri(uri)
        TABLE_FORMATS.check(name)
        if foreign := [field for field in _fields_of(uri) if field not in (*fields, QUERY)]:
            raise UsageError(f"the table {uri!r} has the field {foreign[0]!r}, which the path has not")
    except (ValueError, KeyError, IndexError, InvalidPathError, UsageError) as error:
        raise UsageError(f"{where}: {error}") from error
    return TableTarget(template, uri)


def _fields_of(template: str) -> tuple[str, ...]:
    """Return the fields of a template; raises `ValueError` unless all are plain `{name}`."""
    fields: dict[str, None] = {}
    for _, name, spec, conversion in Formatter().parse(template):
        if name is None:
            continue
        if not name.isidentifier() or spec or conversion:
            raise ValueError(f"{template!r}: write a field as {{name}} only")
        fields[name] = None
    return tuple(fields)


def _escaped(text: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", text)
