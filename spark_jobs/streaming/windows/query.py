"""Queries: what is asked of a stream, read from SQL.

    SELECT sip, type, timestamp, count(*) FROM S GROUP BY sip, type, timestamp WINDOWING 60 s
    SELECT sip, sum(bytes) / count(*) AS mean FROM S WHERE type = 't3' GROUP BY sip HAVING count(*) > 9
        WINDOWING HOP(60 s, 10 s) LATE 5 s

One stream; WHERE over its fields; GROUP BY columns or expressions; in SELECT and HAVING what is grouped by, count(*),
count, sum, min, max, avg, count(DISTINCT …), and expressions of them. Where the stream's time is grouped by, or
selected, it is the beginning of the window (the paper normalises it so). `sql/windowing.py` has the WINDOWING clause.

count(DISTINCT …) is a sketch: exact up to some 2,000 values, within 2.2 % (one standard deviation) beyond.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from springline.persistence.model.names import unseen_in
from springline.spark_jobs.streaming.sources.schema import Stream, to_micros
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.sql.expressions import Expression, checked, normal, plain_text
from springline.spark_jobs.streaming.sql.operations import Scope, Type
from springline.spark_jobs.streaming.sql.text import SqlText
from springline.spark_jobs.streaming.sql.windowing import Rows, Window, split
from springline.spark_jobs.streaming.windows.measures import Aggregate, AggregateKind

RESERVED = ("query", "window_start", "window_end")  # columns that every result has
_NO_TYPE = "NULL has no type; write CAST(NULL AS BIGINT), or AS DOUBLE or TEXT"
_LONGEST_NAME = 200  # characters of a column's name
_ALLOWED = {"expressions", "from_", "where", "group", "having"}
_KINDS: Mapping[type[exp.Expr], AggregateKind] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Min: "min",
    exp.Max: "max",
    exp.Avg: "avg",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the results: its name, and its value over keys (`$k0`, …) and aggregates (`$a0`, …)."""

    name: str
    value: Expression


@dataclass(frozen=True)
class Query:
    """A query that was checked against its stream; times are microseconds.

    `window` is None only for an ad hoc query, which asks for everything that is retained.
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
    having: Expression | None


def read(name: str, sql: str, streams: Mapping[str, Stream], *, ad_hoc: bool = False) -> Query:
    """Read a query and check it against the streams; raises `InvalidQueryError`, which says where."""
    text = SqlText.of(sql, lambda message, line, column: InvalidQueryError(name, message, line=line, column=column))
    with text.reading():
        return _read(name, sql, text, streams, ad_hoc)


def _read(name: str, sql: str, text: SqlText, streams: Mapping[str, Stream], ad_hoc: bool) -> Query:
    clause = split(text)
    if clause.window is None and not ad_hoc:
        raise text.bad("it has no WINDOWING clause, such as WINDOWING 60 s")
    statements = text.statements(clause.sql)
    if len(statements) != 1 or not isinstance(select := normal(statements[0]), exp.Select):
        raise text.bad("write one SELECT")
    stream = _stream(text, select, streams)
    types: dict[str, Type] = {**stream.types, stream.time: "time"}
    of_rows = isinstance(clause.window, Rows)
    reader = _Reader(stream, Scope(text, types, f"stream {stream.name!r}"), select, of_rows=of_rows)
    where = reader.where()
    keys = reader.keys()
    columns = reader.columns()
    having = reader.having()
    return Query(
        name=name,
        sql=sql,
        stream=stream.name,
        where=where,
        keys=keys,
        window=clause.window,
        lateness=to_micros(stream.lateness) if clause.late is None else clause.late,
        aggregates=tuple(reader.aggregates),
        columns=columns,
        having=having,
    )


def _stream(text: SqlText, select: exp.Select, streams: Mapping[str, Stream]) -> Stream:
    for part, content in select.args.items():
        if content and part not in _ALLOWED:
            raise text.bad_part(select, f"{part.rstrip('_').upper()} cannot be used here")
    source = select.args.get("from_")
    table = source.this if source is not None else None
    if not isinstance(table, exp.Table) or any(said for part, said in table.args.items() if part != "this"):
        raise text.bad_part(
            source or select, f"FROM takes one of the streams {', '.join(sorted(streams))}, and no more"
        )
    if table.name not in streams:
        raise text.bad_part(
            table, f"there is no stream {table.name!r}; there is {', '.join(sorted(streams)) or 'none'}"
        )
    return streams[table.name]


class _Reader:
    """Reads the parts of one SELECT; `aggregates` grows as they are met."""

    def __init__(self, stream: Stream, scope: Scope, select: exp.Select, *, of_rows: bool) -> None:
        self.of_rows = of_rows
        self.stream = stream
        self.scope = scope
        self.select = select
        self.aggregates: dict[Aggregate, None] = {}
        self.grouped: dict[str, tuple[str, Type]] = {} if of_rows else {stream.time: ("window_start", "time")}

    def where(self) -> Expression | None:
        where = self.select.args.get("where")
        return self._condition(where.this, self.scope) if where is not None else None

    def keys(self) -> tuple[Expression, ...]:
        group = self.select.args.get("group")
        if group is not None and any(content for part, content in group.args.items() if part != "expressions"):
            raise self.scope.bad(group, "GROUP BY takes columns and expressions")
        found: list[Expression] = []
        for node in group.expressions if group is not None else ():
            key = checked(self._meant(node), self.scope)
            if key.type == "time":
                if key.sql != self.stream.time:
                    raise self.scope.bad(node, "a time is no key: group by the stream's time itself")
                if self.of_rows:
                    raise self.scope.bad(node, "a window of rows has no time of its own to group by")
                continue
            if key.type == "null":
                raise self.scope.bad(node, "a constant is no key")
            if key.sql not in self.grouped:
                self.grouped[key.sql] = (f"$k{len(found)}", key.type)
                found.append(key)
        return tuple(found)

    def _meant(self, node: exp.Expr) -> Any:
        """What `GROUP BY 1`, or GROUP BY a name given in SELECT, stands for."""
        selected = self.select.expressions
        if isinstance(node, exp.Literal) and not node.is_string:
            if not re.fullmatch(r"[0-9]{1,4}", node.this) or not 1 <= int(node.this) <= len(selected):
                raise self.scope.bad(node, f"there is no column {node.this[:40]} in SELECT")
            return selected[int(node.this) - 1].unalias()
        if isinstance(node, exp.Column) and node.name not in self.scope.types:
            for item in selected:
                if isinstance(item, exp.Alias) and item.alias == node.name:
                    return item.this
        return node

    def columns(self) -> tuple[Column, ...]:
        found: dict[str, Column] = {}
        for item in self.select.expressions:
            if item.find(exp.Star) and not item.find(exp.Count):
                raise self.scope.bad(item, "* cannot be selected: name what is grouped by, and aggregates")
            name = item.alias if isinstance(item, exp.Alias) else _name(item)
            if name in RESERVED:
                raise self.scope.bad(item, f"{name} is a column that every result has: choose another name")
            if not name.isprintable() or unseen_in(name) or len(name) > _LONGEST_NAME:
                raise self.scope.bad(item, f"{name[:40]!r} is no name of a column: printable, {_LONGEST_NAME} at most")
            if name in found:
                raise self.scope.bad(item, f"two columns are named {name}: name one otherwise, with AS")
            value = self._over_groups(item.unalias())
            if value.type == "null":
                raise self.scope.bad(item, _NO_TYPE)
            found[name] = Column(name, value)
        return tuple(found.values())

    def having(self) -> Expression | None:
        having = self.select.args.get("having")
        if having is None:
            return None
        condition = self._over_groups(having.this)
        if condition.type not in ("bool", "null"):
            raise self.scope.bad(having.this, "HAVING takes a condition")
        return replace(condition, type="bool")

    def _condition(self, node: exp.Expr, scope: Scope) -> Expression:
        if (found := node.find(exp.AggFunc)) is not None:
            raise scope.bad(found, "an aggregate in WHERE: conditions on groups are written in HAVING")
        condition = checked(node, scope)
        if condition.type not in ("bool", "null"):
            raise scope.bad(node, "WHERE takes a condition")
        return replace(condition, type="bool")

    def _over_groups(self, node: exp.Expr) -> Expression:
        """An expression with aggregates and keys replaced by the columns that hold them."""
        types: dict[str, Type] = dict(self.grouped.values())
        replaced = self._replaced(node.copy(), types)
        return checked(replaced, Scope(self.scope.text, types, "the result"))

    def _replaced(self, node: exp.Expr, types: dict[str, Type]) -> exp.Expr:
        if isinstance(node, exp.Filter):
            name = node.this.sql_name().lower() if isinstance(node.this, exp.AggFunc) else "sum"
            raise self.scope.bad(node, f"FILTER is not known here: write {name}(CASE WHEN condition THEN value END)")
        if isinstance(node, exp.AggFunc):
            aggregate = self._aggregate(node)
            self.aggregates.setdefault(aggregate)
            name = f"$a{list(self.aggregates).index(aggregate)}"
            types[name] = aggregate.type
            return exp.column(exp.to_identifier(name, quoted=True))
        if (known := self.grouped.get(plain_text(node))) is not None:
            return exp.column(exp.to_identifier(known[0], quoted=True))
        if isinstance(node, exp.Column):
            checked(node, self.scope)
            raise self.scope.bad(node, f"{node.name} is neither grouped by nor inside an aggregate")
        for part in list(node.iter_expressions()):
            part.replace(self._replaced(part, types))
        return node

    def _aggregate(self, node: exp.AggFunc) -> Aggregate:
        kind = _KINDS.get(type(node))
        argument = node.this
        more = [name for name, content in node.args.items() if content and name not in ("this", "big_int")]
        more += [name for name, content in argument.args.items() if content] if isinstance(argument, exp.Star) else []
        if kind is None or more or (argument is None and kind != "count"):
            known = "known are count, sum, min, max, avg of one value"
            raise self.scope.bad(node, f"{node.sql(dialect='duckdb')}: {known}")
        if kind == "count" and (argument is None or isinstance(argument, exp.Star)):
            return Aggregate("rows", None)
        distinct = isinstance(argument, exp.Distinct)
        if distinct:
            if len(argument.expressions) != 1:
                raise self.scope.bad(node, "count(DISTINCT …) takes one value")
            argument = argument.expressions[0]
        if (inner := argument.find(exp.AggFunc)) is not None:
            raise self.scope.bad(inner, "an aggregate of an aggregate")
        value = checked(argument, self.scope)
        if value.type == "null":
            raise self.scope.bad(node, _NO_TYPE)
        if distinct and kind == "count":
            return Aggregate("distinct", value)
        if distinct and kind in ("sum", "avg"):
            raise self.scope.bad(node, f"{kind}(DISTINCT …) cannot be added up from slices; count(DISTINCT …) can")
        if kind != "count" and value.type not in ("int", "float"):
            raise self.scope.bad(node, f"{kind}() needs a number, and {value.sql} is {value.type}")
        return Aggregate(kind, value)


def _name(node: exp.Expr) -> str:
    """`count`, `sum_bytes`, `count_distinct_dip`: for a column without a name of its own."""
    if isinstance(node, exp.Column):
        return node.name
    words = re.findall(r"\w+", node.sql(dialect="duckdb").lower())
    return "_".join(words)
