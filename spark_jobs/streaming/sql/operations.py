"""Operations of SQL: which ones are supported, with their argument and result types; `evaluation` evaluates them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from sqlglot import exp

from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.sources.field_types import MAX_DIGITS, decimal_type, scale_of
from springline.spark_jobs.streaming.sql.evaluation import (
    COMPARISONS,
    TIMESTAMP_TYPES,
    decimal_literal,
    decimal_of_cast,
    is_int,
    is_least,
    parts_of,
)
from springline.spark_jobs.streaming.sql.text import SqlText
from springline.spark_jobs.streaming.sql.windowing import instant

_MAX_INT = (1 << 63) - 1
_DIGITS = len(str(_MAX_INT))
_MAX_ROUND_DIGITS = 18  # decimal places
_MAX_PATTERN = 1_000  # characters of a LIKE pattern
Type = str
"""A type of SQL: those of fields, as `field_types` lists them, and null. Decimals are named with their scale."""


@dataclass(frozen=True)
class Scope:
    """The names that an expression in a text may use: columns and their types; error messages call the input `owner`.

    With `is_join` the columns are fields of two sides, such as `l.key`, and there are no aggregates.
    """

    text: SqlText
    types: Mapping[str, Type]
    owner: str = "the stream"
    is_join: bool = False

    def error_at(self, node: exp.Expr, message: str) -> StreamError:
        """Return an error at the position of `node`, or of the first part of it whose position is known."""
        return self.text.error_at_node(node, message)

    def sql_of(self, node: exp.Expr) -> str:
        """Return the SQL of a node as a user would write it."""
        sql = node.sql(dialect="duckdb")
        for name in self.types if self.is_join else ():
            sql = sql.replace(f'"{name}"', name)
        return sql

    @property
    def supported_syntax(self) -> str:
        """The supported syntax, for error messages."""
        return _SUPPORTED if self.is_join else f"{_SUPPORTED}; {_AGGREGATES}"


def path_of(node: exp.Expr) -> str:
    """Return what a column or a part of one is written as, such as `user.id` or `tags[0]`; empty for anything else."""
    if isinstance(node, exp.Column):
        return ".".join(part.name for part in node.parts)
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier) and (path := path_of(node.this)):
        return f"{path}.{node.expression.name}"
    if isinstance(node, exp.Bracket) and len(node.expressions) == 1 and (path := path_of(node.this)):
        (index,) = node.expressions
        literal = index.this if isinstance(index, exp.Neg) else index
        if isinstance(literal, exp.Literal) and not literal.is_string and is_int(literal.this):
            # the parser has subtracted 1, since DuckDB counts from 1
            return f"{path}[{int(literal.this) * (-1 if index is not literal else 1) + 1}]"
    return ""


def type_of(node: exp.Expr, scope: Scope) -> Type:
    """Return the type of a normalized expression; raises the refusal of the text."""
    if isinstance(node, exp.Column):
        if node.table or node.name not in scope.types:
            raise _no_column(node, node.sql(), scope)
        return scope.types[node.name]
    if isinstance(node, exp.Dot | exp.Bracket) and (path := path_of(node)):
        raise _no_column(node, path, scope)
    if isinstance(node, exp.Literal):
        return _type_of_literal(node, scope)
    if isinstance(node, exp.Null | exp.Boolean):
        return "null" if isinstance(node, exp.Null) else "boolean"
    if is_least(node):
        return "int"
    if isinstance(node, exp.Case):
        _check_parts(node, scope)
        return _type_of_case(node, scope)
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        _check_parts(node, scope)
        return _type_of_cast(node, scope)
    for kinds, rule in _RULES:
        if isinstance(node, kinds):
            _check_parts(node, scope)
            return rule(node, _types_of(parts_of(node), scope), scope)
    raise scope.error_at(node, f"{scope.sql_of(node)!r} is not supported; {scope.supported_syntax}")


def _no_column(node: exp.Expr, name: str, scope: Scope) -> StreamError:
    columns = ", ".join(sorted(name for name in scope.types if not name.startswith("$")))
    return scope.error_at(node, f"{scope.owner} has no column {name!r}; it has {columns}")


def _types_of(nodes: Sequence[exp.Expr], scope: Scope) -> list[Type]:
    """Return the types of operands; a literal with a point beside a decimal is one."""
    types = [type_of(node, scope) for node in nodes]
    if not any(map(_is_decimal, types)):
        return types
    exact = [decimal_literal(node) for node in nodes]
    return [kind if each is None else decimal_type(each[1]) for kind, each in zip(types, exact, strict=True)]


def _is_decimal(kind: Type) -> bool:
    return scale_of(kind) is not None


def _check_parts(node: exp.Expr, scope: Scope) -> None:
    """Refuse an operation that lacks an operand, as in `n IN`, or has an option that is not evaluated."""
    needs = ("expressions",) if isinstance(node, exp.In) else (n for n, must in node.arg_types.items() if must)
    missing = any(not node.args.get(name) for name in needs)
    more = [name for name, content in node.args.items() if content and name not in _PARTS.get(type(node), _ALL)]
    if (more or missing) and type(node) in _USAGES:
        raise scope.error_at(node, _USAGES[type(node)])
    if missing:
        raise scope.error_at(node, f"{scope.sql_of(node)!r}: something is missing")
    if more:
        raise scope.error_at(node, f"{scope.sql_of(node)!r}: {more[0].upper()} is not supported")


def _type_of_literal(node: exp.Literal, scope: Scope) -> Type:
    if node.is_string:
        return "text"
    if not is_int(node.this):
        if math.isinf(float(node.this)):
            raise scope.error_at(
                node, f"{node.this[:40]} is larger than any double; the largest is 1.7976931348623157e308"
            )
        return "float"
    if len(node.this) > _DIGITS or int(node.this) > _MAX_INT:
        raise scope.error_at(node, f"{node.this[:40]} does not fit 64 bits; write it with a decimal point")
    return "int"


def _numbers(node: exp.Expr, types: Sequence[Type], scope: Scope) -> Type:
    """Return the type of arithmetic; decimals keep their places, those of a product are added."""
    if wrong := sorted({kind for kind in types if kind not in ("int", "float", "null") and not _is_decimal(kind)}):
        raise scope.error_at(node, f"{scope.sql_of(node)!r} needs numbers, and has {', '.join(wrong)}")
    scales = [scale for kind in types if (scale := scale_of(kind)) is not None]
    if "float" in types or not scales:
        return "float" if "float" in types else "int"
    if isinstance(node, exp.IntDiv):
        raise scope.error_at(node, f"{scope.sql_of(node)!r}: // takes no decimals; write floor(a / b)")
    if isinstance(node, exp.Floor | exp.Ceil):
        return decimal_type(0)
    places = sum(scales) if isinstance(node, exp.Mul) else max(scales)
    if places > MAX_DIGITS:
        raise scope.error_at(
            node, f"{scope.sql_of(node)!r} has {places} decimal places, {MAX_DIGITS} at most: CAST a factor AS DOUBLE"
        )
    return decimal_type(places)


def _quotient(node: exp.Expr, types: Sequence[Type], scope: Scope) -> Type:
    _numbers(node, types, scope)
    return "float"


def _rounded(node: exp.Expr, types: Sequence[Type], scope: Scope) -> Type:
    digits = node.args.get("decimals")
    if digits is not None and (
        not (isinstance(digits, exp.Literal) and is_int(digits.this)) or int(digits.this) > _MAX_ROUND_DIGITS
    ):
        raise scope.error_at(node, f"round() takes a constant number of digits, {_MAX_ROUND_DIGITS} at most")
    kind = _numbers(node, types[:1], scope)
    scale = scale_of(kind)
    return kind if scale is None else decimal_type(min(scale, int(digits.this) if digits is not None else 0))


def _texts(node: exp.Expr, types: Sequence[Type], scope: Scope) -> Type:
    if wrong := sorted({kind for kind in types if kind not in ("text", "null")}):
        raise scope.error_at(node, f"{scope.sql_of(node)!r} needs texts, and has {', '.join(wrong)}")
    return "text"


def _length(node: exp.Expr, types: Sequence[Type], scope: Scope) -> Type:
    _texts(node, types, scope)
    return "int"


def _pattern(node: exp.Expr, types: Sequence[Type], scope: Scope) -> Type:
    _texts(node, types, scope)
    if not isinstance(node.expression, exp.Literal):
        raise scope.error_at(node, "LIKE takes a constant pattern")
    if len(node.expression.this) > _MAX_PATTERN:
        raise scope.error_at(node, f"LIKE: its pattern is too long; {_MAX_PATTERN:,} characters at most")
    return "boolean"


def _truth(node: exp.Expr, types: Sequence[Type], scope: Scope) -> Type:
    if wrong := sorted({kind for kind in types if kind not in ("boolean", "null")}):
        raise scope.error_at(node, f"{scope.sql_of(node)!r} needs conditions, and has {', '.join(wrong)}")
    return "boolean"


def _is(node: exp.Expr, types: Sequence[Type], scope: Scope) -> Type:
    if isinstance(node.expression, exp.Null):
        return "boolean"
    if not isinstance(node.expression, exp.Boolean):
        raise scope.error_at(node, f"{scope.sql_of(node)!r}: IS takes NULL, TRUE or FALSE")
    return _truth(node, types, scope)


def _comparable(node: exp.Expr, types: Sequence[Type], scope: Scope) -> Type:
    _common(node, types, scope)
    return "boolean"


def _common(node: exp.Expr, types: Sequence[Type], scope: Scope, operands: Sequence[exp.Expr] | None = None) -> Type:
    """Return the common type of the operands: an int widens to a decimal, both to a float, a date to a timestamp.

    A text literal beside a date or a timestamp must be one.
    """
    kinds = {kind for kind in types if kind != "null"}
    times = kinds & {"date", "timestamp"}
    if times and kinds <= {"date", "timestamp", "text"}:
        common = "timestamp" if "timestamp" in times else "date"
        for part, kind in zip(parts_of(node) if operands is None else operands, types, strict=True):
            if kind == "text":
                _check_time(part, common, scope)
        return common
    scales = [scale for kind in kinds if (scale := scale_of(kind)) is not None]
    if all(kind in ("int", "float") or _is_decimal(kind) for kind in kinds):
        if "float" in kinds:
            return "float"
        return decimal_type(max(scales)) if scales else "int" if kinds else "null"
    if len(kinds) > 1:
        raise scope.error_at(node, f"{scope.sql_of(node)!r} compares {' with '.join(sorted(kinds))}")
    return kinds.pop()


def _check_time(node: exp.Expr, kind: Type, scope: Scope) -> None:
    text = node.unnest()
    content = text.this if isinstance(text, exp.Literal) else ""
    try:
        instant(content) if kind == "timestamp" else date.fromisoformat(content)
    except ValueError:
        what = "date, such as '2013-01-31'" if kind == "date" else "date and time, such as '2013-01-31 12:00:00'"
        raise scope.error_at(node, f"{node.sql()} is not a {what}") from None


def _type_of_case(node: exp.Case, scope: Scope) -> Type:
    subject = node.this
    for branch in node.args["ifs"]:
        when = exp.EQ(this=subject.copy(), expression=branch.this.copy()) if subject is not None else branch.this
        if type_of(when, scope) not in ("boolean", "null"):
            raise scope.error_at(when, f"{scope.sql_of(when)!r} is not a condition")
    results = [branch.args["true"] for branch in node.args["ifs"]]
    results += [node.args["default"]] if node.args.get("default") is not None else []
    return _common(node, _types_of(results, scope), scope, results)


_CASTS: Mapping[Any, Type] = {
    exp.DataType.Type.INT: "int", exp.DataType.Type.BIGINT: "int", exp.DataType.Type.DOUBLE: "float",
    exp.DataType.Type.FLOAT: "float", exp.DataType.Type.TEXT: "text", exp.DataType.Type.VARCHAR: "text",
    exp.DataType.Type.DATE: "date", exp.DataType.Type.BOOLEAN: "boolean",
    **dict.fromkeys(TIMESTAMP_TYPES, "timestamp"),
}  # fmt: skip
_FITS: Mapping[Type, frozenset[Type]] = {
    "int": frozenset({"int", "float", "text", "decimal"}), "float": frozenset({"int", "float", "decimal"}),
    "decimal": frozenset({"int", "float", "text", "decimal"}), "text": frozenset({"text"}),
    "boolean": frozenset({"boolean", "int"}), "date": frozenset({"date", "timestamp"}),
    "timestamp": frozenset({"date", "timestamp"}), "bytes": frozenset(),
}  # fmt: skip


def _type_of_cast(node: exp.Cast, scope: Scope) -> Type:
    source_type, target_type = type_of(node.this, scope), _CASTS.get(node.to.this, "")
    if node.to.this == exp.DataType.Type.DECIMAL:
        digits = decimal_of_cast(node.to)
        if digits is None:
            what = f"write DECIMAL({MAX_DIGITS}, 2), of {MAX_DIGITS} digits at most"
            raise scope.error_at(node, f"{scope.sql_of(node)!r}: {what}")
        target_type = decimal_type(digits[1])
    source, target = (kind.partition("(")[0] for kind in (source_type, target_type))
    if not target or (source != "null" and target not in _FITS[source]):
        raise scope.error_at(
            node, f"{scope.sql_of(node)!r}: {source_type} cannot be cast to it; declare the field with the type it has"
        )
    return target_type


_Rule = Callable[[exp.Expr, Sequence[Type], Scope], Type]
_RULES: Sequence[tuple[tuple[type[exp.Expr], ...], _Rule]] = (
    ((exp.Paren,), lambda node, types, scope: types[0]),
    ((exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv, exp.Neg, exp.Abs, exp.Floor, exp.Ceil), _numbers),
    ((exp.Div,), _quotient),
    ((exp.Round,), _rounded),
    ((exp.Lower, exp.Upper, exp.DPipe), _texts),
    ((exp.Length,), _length),
    ((exp.Like,), _pattern),
    ((exp.And, exp.Or, exp.Not), _truth),
    ((exp.Is,), _is),
    ((*COMPARISONS, exp.In, exp.Between), _comparable),
    ((exp.Coalesce,), _common),
)
_ALL = frozenset({"this", "expression", "expressions", "typed", "safe", "is_nvl", "is_null"})
_PARTS: Mapping[type[exp.Expr], frozenset[str]] = {
    exp.Case: frozenset({"this", "ifs", "default"}), exp.Cast: frozenset({"this", "to"}),
    exp.Between: frozenset({"this", "low", "high"}),
    exp.Round: frozenset({"this", "decimals", "casts_non_integer_decimals"}),
}  # fmt: skip
_USAGES: Mapping[type[exp.Expr], str] = {exp.In: "IN takes a list in brackets, such as IN (1, 2)"}
OPERATORS = ("+", "-", "*", "/", "//", "%", "||", "=", "<>", "<", "<=", ">", ">=", "AND", "OR", "NOT", "IN", "BETWEEN",
             "LIKE", "IS NULL", "IS TRUE", "CASE", "CAST")  # fmt: skip
FUNCTIONS = ("abs", "round", "floor", "ceil", "lower", "upper", "length", "coalesce", "ifnull")
_SUPPORTED = f"supported are {' '.join(OPERATORS[:7])}, comparisons, {', '.join((*OPERATORS[13:], *FUNCTIONS))}"
_AGGREGATES = "and count, sum, min, max, avg where rows are aggregated"
