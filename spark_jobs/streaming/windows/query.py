"""Queries over a stream, read from SQL.

    SELECT sip, type, timestamp, count(*) FROM S GROUP BY sip, type, timestamp WINDOWING 60 s
    SELECT sip, sum(bytes) / count(*) AS mean FROM S WHERE type = 't3' GROUP BY sip HAVING count(*) > 9
        WINDOWING HOP(60 s, 10 s) LATE 5 s

A query has one stream; WHERE over its fields; GROUP BY columns or expressions; in SELECT and HAVING the grouped
expressions, count(*), count, sum, min, max, avg, count(DISTINCT …), and expressions of them. If the stream's time is
grouped by or selected, it is the start of the window (the paper normalises it so). `sql/windowing.py` describes the
WINDOWING clause. count(DISTINCT …) is a sketch: exact up to about 2,000 values, within 2.2 % (one standard deviation)
above.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from sqlglot import exp

from springline.persistence.model.invisible_characters import find_invisible
from springline.spark_jobs.streaming.sources.field_types import scale_of
from springline.spark_jobs.streaming.sources.schema import Stream, to_micros
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.sql.expressions import (
    Expression,
    canonical_sql,
    check_expression,
    column_of_path,
    normalize,
)
from springline.spark_jobs.streaming.sql.operations import Scope, Type, path_of
from springline.spark_jobs.streaming.sql.text import SqlText
from springline.spark_jobs.streaming.sql.windowing import CountWindow, Window, split_windowing
from springline.spark_jobs.streaming.windows.measures import Aggregate, AggregateKind

RESERVED = ("query", "window_start", "window_end")  # columns of every result
_NO_TYPE = "NULL has no type; write CAST(NULL AS BIGINT), or AS DOUBLE or TEXT"
MAX_NAME_LENGTH = 200  # characters of a column name
CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "WINDOWING", "LATE")
_ALLOWED = {"expressions", "from_", "where", "group", "having"}
_KINDS: Mapping[type[exp.Expr], AggregateKind] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Min: "min",
    exp.Max: "max",
    exp.Avg: "avg",
}
AGGREGATES = ("count(*)", "count(DISTINCT x)", *(f"{kind}(x)" for kind in _KINDS.values()))


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the results: its name, and its expression over keys (`$k0`, …) and aggregates (`$a0`, …)."""

    name: str
    value: Expression


@dataclass(frozen=True)
class Query:
    """A query that was checked against its stream; times are microseconds.

    `window` is None only for an ad hoc query over everything that is retained.
    """

    name: str
    sql: str
    stream: str
    where: Expression | None
    keys: tuple[Expression, ...]
    window: Window | None
    lateness: int
    aggregates: tuple[Aggregate, ...]
    columns: tuple[Column, ...]
    having_condition: Expression | None


def read_query(name: str, sql: str, streams: Mapping[str, Stream], *, ad_hoc: bool = False) -> Query:
    """Read a query and check it against the streams; raises `InvalidQueryError` with the position in the text."""
    text = SqlText.of(sql, lambda message, line, column: InvalidQueryError(name, message, line=line, column=column))
    with text.translated_errors():
        return _read_select(name, sql, text, streams, ad_hoc)


def _read_select(name: str, sql: str, text: SqlText, streams: Mapping[str, Stream], ad_hoc: bool) -> Query:
    clause = split_windowing(text)
    if clause.window is None and not ad_hoc:
        raise text.error_at("it has no WINDOWING clause, such as WINDOWING 60 s")
    statements = text.statements(clause.sql)
    if len(statements) != 1 or not isinstance(select := normalize(statements[0]), exp.Select):
        raise text.error_at("write one SELECT")
    stream = _stream(text, select, streams)
    select = _with_paths(select, stream)
    counts_rows = isinstance(clause.window, CountWindow)
    reader = _SelectReader(
        stream, Scope(text, stream.sql_types, f"stream {stream.name!r}"), select, counts_rows=counts_rows
    )
    where = reader.where()
    keys = reader.keys()
    columns = reader.columns()
    having_condition = reader.having_condition()
    return Query(
        name=name,
        sql=sql,
        stream=stream.name,
        where=where,
        keys=keys,
        window=clause.window,
        lateness=to_micros(stream.lateness) if clause.lateness is None else clause.lateness,
        aggregates=tuple(reader.aggregates),
        columns=columns,
        having_condition=having_condition,
    )


def _stream(text: SqlText, select: exp.Select, streams: Mapping[str, Stream]) -> Stream:
    for part, content in select.args.items():
        if content and part not in _ALLOWED:
            raise text.error_at_node(select, f"{part.rstrip('_').upper()} cannot be used here")
    source = select.args.get("from_")
    table = source.this if source is not None else None
    if not isinstance(table, exp.Table) or any(argument for part, argument in table.args.items() if part != "this"):
        raise text.error_at_node(source or select, f"FROM must name one stream: {' or '.join(sorted(streams))}")
    if table.name not in streams:
        raise text.error_at_node(
            table, f"there is no stream {table.name!r}; there is {', '.join(sorted(streams)) or 'none'}"
        )
    return streams[table.name]


def _with_paths(select: exp.Select, stream: Stream) -> exp.Select:
    """Replace `user.id` or `tags[0]`, also after the stream's name, by the field of that name if one is declared."""
    names = {
        path: name for name in stream.types if "." in name or "[" in name for path in (name, f"{stream.name}.{name}")
    }

    def resolve(part: exp.Expr) -> exp.Expr:
        return column_of_path(part, names[path]) if (path := path_of(part)) in names else part

    return cast(exp.Select, select.transform(resolve)) if names else select


class _SelectReader:
    """Reads the parts of one SELECT; `aggregates` collects the aggregates that it finds."""

    def __init__(self, stream: Stream, scope: Scope, select: exp.Select, *, counts_rows: bool) -> None:
        self.counts_rows = counts_rows
        self.stream = stream
        self.scope = scope
        self.select = select
        self.aggregates: dict[Aggregate, None] = {}
        self.grouped: dict[str, tuple[str, Type]] = {} if counts_rows else {stream.time: ("window_start", "timestamp")}

    def where(self) -> Expression | None:
        where = self.select.args.get("where")
        return self._condition(where.this, self.scope) if where is not None else None

    def keys(self) -> tuple[Expression, ...]:
        group = self.select.args.get("group")
        if group is not None and any(content for part, content in group.args.items() if part != "expressions"):
            raise self.scope.error_at(group, "GROUP BY takes columns and expressions")
        keys: list[Expression] = []
        for node in group.expressions if group is not None else ():
            key = check_expression(self._resolve_select_reference(node), self.scope)
            if key.sql == canonical_sql(exp.column(self.stream.time, quoted=True)):
                if self.counts_rows:
                    raise self.scope.error_at(node, "a window of rows has no time of its own to group by")
                continue
            if key.type == "null":
                raise self.scope.error_at(node, "a constant cannot be a key")
            if key.sql not in self.grouped:
                self.grouped[key.sql] = (f"$k{len(keys)}", key.type)
                keys.append(key)
        return tuple(keys)

    def _resolve_select_reference(self, node: exp.Expr) -> Any:
        """Resolve `GROUP BY 1`, or GROUP BY an alias from SELECT, to the selected expression."""
        selected = self.select.expressions
        if isinstance(node, exp.Literal) and not node.is_string:
            if not re.fullmatch(r"[0-9]{1,4}", node.this) or not 1 <= int(node.this) <= len(selected):
                raise self.scope.error_at(node, f"there is no column {node.this[:40]} in SELECT")
            return selected[int(node.this) - 1].unalias()
        if isinstance(node, exp.Column) and node.name not in self.scope.types:
            for item in selected:
                if isinstance(item, exp.Alias) and item.alias == node.name:
                    return item.this
        return node

    def columns(self) -> tuple[Column, ...]:
        columns: dict[str, Column] = {}
        for item in self.select.expressions:
            if item.find(exp.Star) and not item.find(exp.Count):
                raise self.scope.error_at(item, "* cannot be selected: name what is grouped by, and aggregates")
            name = item.alias if isinstance(item, exp.Alias) else _name(item)
            if name.casefold() in RESERVED:
                raise self.scope.error_at(item, f"{name} is a column that every result has: choose another name")
            if not name.isprintable() or find_invisible(name) or len(name) > MAX_NAME_LENGTH:
                raise self.scope.error_at(
                    item, f"{name[:40]!r} is no name of a column: printable, {MAX_NAME_LENGTH} at most"
                )
            if (same := columns.get(name.casefold())) is not None:  # SQL over stored results ignores case
                named = f"named {name}" if same.name == name else f"named {same.name} and {name}, the same but for case"
                raise self.scope.error_at(item, f"two columns are {named}: rename one with AS")
            value = self._over_groups(item.unalias())
            if value.type == "null":
                raise self.scope.error_at(item, _NO_TYPE)
            columns[name.casefold()] = Column(name, value)
        return tuple(columns.values())

    def having_condition(self) -> Expression | None:
        having_clause = self.select.args.get("having")
        if having_clause is None:
            return None
        condition = self._over_groups(having_clause.this)
        if condition.type not in ("boolean", "null"):
            raise self.scope.error_at(having_clause.this, "HAVING takes a condition")
        return replace(condition, type="boolean")

    def _condition(self, node: exp.Expr, scope: Scope) -> Expression:
        if (aggregate := node.find(exp.AggFunc)) is not None:
            raise scope.error_at(aggregate, "an aggregate in WHERE: conditions on groups are written in HAVING")
        condition = check_expression(node, scope)
        if condition.type not in ("boolean", "null"):
            raise scope.error_at(node, "WHERE takes a condition")
        return replace(condition, type="boolean")

    def _over_groups(self, node: exp.Expr) -> Expression:
        """Replace aggregates and keys in an expression by the columns that hold them."""
        types: dict[str, Type] = dict(self.grouped.values())
        replaced = self._replace_aggregates(node.copy(), types)
        return check_expression(replaced, Scope(self.scope.text, types, "the result"))

    def _replace_aggregates(self, node: exp.Expr, types: dict[str, Type]) -> exp.Expr:
        if isinstance(node, exp.Filter):
            name = node.this.sql_name().lower() if isinstance(node.this, exp.AggFunc) else "sum"
            raise self.scope.error_at(
                node, f"FILTER is not supported: write {name}(CASE WHEN condition THEN value END)"
            )
        if isinstance(node, exp.AggFunc):
            aggregate = self._aggregate(node)
            self.aggregates.setdefault(aggregate)
            name = f"$a{list(self.aggregates).index(aggregate)}"
            types[name] = aggregate.type
            return exp.column(exp.to_identifier(name, quoted=True))
        if (group_column := self.grouped.get(canonical_sql(node))) is not None:
            return exp.column(exp.to_identifier(group_column[0], quoted=True))
        if isinstance(node, exp.Column):
            check_expression(node, self.scope)
            raise self.scope.error_at(node, f"{node.name} is neither grouped by nor inside an aggregate")
        for part in list(node.iter_expressions()):
            part.replace(self._replace_aggregates(part, types))
        return node

    def _aggregate(self, node: exp.AggFunc) -> Aggregate:
        kind = _KINDS.get(type(node))
        argument = node.this
        more = [name for name, content in node.args.items() if content and name not in ("this", "big_int")]
        more += [name for name, content in argument.args.items() if content] if isinstance(argument, exp.Star) else []
        if kind is None or more or (argument is None and kind != "count"):
            supported = "supported are count, sum, min, max, avg of one value"
            raise self.scope.error_at(node, f"{node.sql(dialect='duckdb')}: {supported}")
        if kind == "count" and (argument is None or isinstance(argument, exp.Star)):
            return Aggregate("rows", None)
        distinct = isinstance(argument, exp.Distinct)
        if distinct:
            if len(argument.expressions) != 1:
                raise self.scope.error_at(node, "count(DISTINCT …) takes one value")
            argument = argument.expressions[0]
        if (inner := argument.find(exp.AggFunc)) is not None:
            raise self.scope.error_at(inner, "an aggregate of an aggregate")
        value = check_expression(argument, self.scope)
        if value.type == "null":
            raise self.scope.error_at(node, _NO_TYPE)
        if distinct and kind == "count":
            return Aggregate("distinct", value)
        if distinct and kind in ("sum", "avg"):
            raise self.scope.error_at(node, f"{kind}(DISTINCT …) cannot be merged from slices; count(DISTINCT …) can")
        has_order = kind in ("min", "max") and value.type in ("date", "timestamp")
        if kind != "count" and not has_order and value.type not in ("int", "float") and scale_of(value.type) is None:
            what = "a number, a date or a timestamp" if kind in ("min", "max") else "a number"
            raise self.scope.error_at(node, f"{kind}() needs {what}, and {value.sql} is {value.type}")
        return Aggregate(kind, value)


def _name(node: exp.Expr) -> str:
    """Return a name for a column without alias: `count`, `sum_bytes`, `count_distinct_dip`."""
    if isinstance(node, exp.Column):
        return node.name
    name_parts = re.findall(r"\w+", node.sql(dialect="duckdb").lower())
    return "_".join(name_parts)
