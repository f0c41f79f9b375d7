"""Writes reference-declarations.md: keys of streams.toml and alerts.toml, arguments of `@operation`, SQL of streams."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Set

from docs.generated_parts import table
from docs.python_page import section_entries
from springline.persistence.model.toml_table import TomlTable, keys_of
from springline.persistence.monitoring.rules import AlertRuleKeys
from springline.spark_jobs.operations import operation
from springline.spark_jobs.streaming.job_keys import JobKeys
from springline.spark_jobs.streaming.kinds import load_kind
from springline.spark_jobs.streaming.sources.field_types import FIELD_TYPES
from springline.spark_jobs.streaming.sql.depth import MAX_CHAIN, MAX_DEPTH
from springline.spark_jobs.streaming.sql.operations import FUNCTIONS, OPERATORS
from springline.spark_jobs.streaming.sql.windowing import DURATION_UNITS, WINDOW_FORMS
from springline.spark_jobs.streaming.windows.query import AGGREGATES, CLAUSES, MAX_NAME_LENGTH, RESERVED

KINDS = ("windows", "join", "wordcount", "tracker")  # of streams.toml, in the order of the page
_INTRO = """\
# Declarations

What the files and the decorator accept by which a user declares streams, alerts and operations: every key with its
values and its default. A key that is not listed is an error when the file is read, and so is a value out of range; the
error names the file, the table, the key, and what is expected.

`make docs` writes this page from the classes that read the declarations.

- [streams.toml](#streamstoml)
- [alerts.toml](#alertstoml)
- [@operation](#operation)
- [SQL of streams](#sql-of-streams)
"""
_STREAMS = """\
## streams.toml

One table a job, whose name is the job's: a small letter, then small letters, digits, dashes and underscores, at most 41
characters. `SPRINGLINE_STREAMS_FILE` names another file. `springline config check` reads it and reports what is wrong;
[streams.md](streams.md#declare-a-job) explains how jobs behave.
"""
_ALERTS = """\
## alerts.toml

One table a rule; `SPRINGLINE_ALERT_RULES` names another file. [monitoring.md](monitoring.md#alerts) has examples and
the metrics.
"""
_OPERATION = """\
## @operation

`from springline import operation`: the decorator that declares a function on Spark as an operation.
[reference-python.md](reference-python.md#operation) has an example, [howto.md](howto.md) a whole workflow.
"""
_SQL = """\
## SQL of streams

[sql.md](sql.md) describes what each expression computes, [streams.md](streams.md#queries) what windows contain.
"""


def declarations_page() -> str:
    """Return the whole page."""
    parts = [_INTRO, _STREAMS, "### Every job\n", f"{_keys_table(JobKeys)}\n"]
    common_keys = {key.name for key in keys_of(JobKeys)}
    for name in KINDS:
        model = load_kind(name).keys
        parts += [f"### Kind `{name}`\n", f"{_first_sentence(model)}\n"]
        parts += [f"{_keys_table(model, common_keys)}\n", *_nested_tables(model)]
    parts += [_ALERTS, f"{_keys_table(AlertRuleKeys)}\n", _OPERATION, f"{_arguments_table()}\n", _SQL, _sql_table()]
    return "\n".join(parts) + "\n"


def _first_sentence(model: type[TomlTable]) -> str:
    return (inspect.getdoc(model) or "").partition("\n\n")[0]


def _keys_table(model: type[TomlTable], excluded_keys: Set[str] = frozenset()) -> str:
    rows = [
        (f"`{key.name}`", key.expected, key.default if key.default in ("", "required") else f"`{key.default}`",
         key.description)
        for key in keys_of(model) if key.name not in excluded_keys
    ]  # fmt: skip
    return table(("key", "value", "default", "what it is"), rows)


def _nested_tables(model: type[TomlTable]) -> Iterator[str]:
    """Yield the keys of the tables in a job's table; two keys with the same keys share one."""
    names: dict[type[TomlTable], list[str]] = {}
    for key in keys_of(model):
        if key.table is not None:
            names.setdefault(key.table, []).append(f"`[JOB.{key.name}]`")
    for nested, headings in names.items():
        yield f"{' and '.join(headings)}:\n"
        yield f"{_keys_table(nested)}\n"


def _arguments_table() -> str:
    """Return the arguments of `@operation`, from its signature and its docstring."""
    descriptions = section_entries(inspect.getdoc(operation) or "", "Args")
    rows = [
        (f"`{name}`", "required" if argument.default is inspect.Parameter.empty else f"`{argument.default!r}`",
         " ".join(descriptions[name].split()))
        for name, argument in inspect.signature(operation).parameters.items() if name != "self"
    ]  # fmt: skip
    return table(("argument", "default", "what it is"), rows)


def _sql_table() -> str:
    units = ", ".join(f"`{unit}`" for unit in DURATION_UNITS)
    rows = [
        ("clauses of a query", ", ".join(f"`{clause}`" for clause in CLAUSES)),
        ("windows", ", ".join(f"`{form}`" for form in WINDOW_FORMS)),
        ("units of a duration", units),
        ("types of fields", ", ".join(f"`{each}`" for each in FIELD_TYPES)),
        ("operators", ", ".join(f"`{each}`" for each in OPERATORS)),
        ("functions", ", ".join(f"`{each}`" for each in FUNCTIONS)),
        ("aggregates", ", ".join(f"`{each}`" for each in AGGREGATES)),
        ("columns of every result", ", ".join(f"`{each}`" for each in RESERVED)),
        ("nesting of brackets, `CASE`, `NOT` and signs", f"at most {MAX_DEPTH} levels"),
        ("operators in a chain", f"at most {MAX_CHAIN}"),
        ("name of a column", f"at most {MAX_NAME_LENGTH} characters"),
    ]
    return table(("part", "what is supported"), rows)
