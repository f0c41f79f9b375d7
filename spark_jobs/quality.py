"""Quality rules for rows and tables: declared once, validated by Great Expectations, and used to quarantine rows.

A row rule is an SQL condition that every row must meet. For validation each rule becomes a column that is 1 where the
condition is not met, and whose sum Great Expectations expects to be 0, so that all rules together cost one pass.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from springline.spark_jobs.errors import ColumnsError, ParameterError, QualityError

BROKEN_RULES_COLUMN = "broken_rules"
_ROW_COUNT = "rows"


class QualityMode(StrEnum):
    """What happens to rows that break a rule: they pass, are quarantined, or stop the run."""

    PASS = "pass"
    QUARANTINE = "quarantine"
    STOP = "stop"

    @staticmethod
    def parse(text: str) -> QualityMode:
        """Parse a mode; raises `ParameterError`."""
        try:
            return QualityMode(text)
        except ValueError:
            raise ParameterError(f"quality={text!r}: use one of {', '.join(QualityMode)}") from None


@dataclass(frozen=True)
class QualityRule:
    """A rule that every row must meet, in words and as an SQL condition; a null condition counts as broken."""

    name: str
    condition: str

    @property
    def is_broken(self) -> Column:
        """Column that is true where a row breaks the rule."""
        return ~F.coalesce(F.expr(self.condition), F.lit(False))


@dataclass(frozen=True)
class QualityRules:
    """The rules of a table: rules about its rows, required columns, and the maximum plausible number of rows."""

    rows: tuple[QualityRule, ...]
    columns: tuple[str, ...]
    most_rows: int


@dataclass(frozen=True)
class QualityReport:
    """The result of a validation: number of rows, how many of them break a rule, and the result of each rule."""

    rows: int
    broken_rows: int
    row_rules: tuple[Mapping[str, object], ...]
    table_rules: tuple[Mapping[str, object], ...]

    @property
    def is_table_valid(self) -> bool:
        """Whether every rule about the table as a whole is met."""
        return all(rule["valid"] for rule in self.table_rules)

    @property
    def is_valid(self) -> bool:
        """Whether every rule is met."""
        return self.is_table_valid and not self.broken_rows

    def as_json(self, mode: QualityMode) -> dict[str, object]:
        """Return the report as plain values, to be stored with the generation."""
        return {
            "mode": mode.value,
            "valid": self.is_valid,
            "rows": self.rows,
            "broken_rows": self.broken_rows,
            "accepted_rows": self.rows - (self.broken_rows if mode is QualityMode.QUARANTINE else 0),
            "row_rules": list(self.row_rules),
            "table_rules": list(self.table_rules),
        }

    def describe_broken_rules(self) -> str:
        """Describe the broken rules in one line."""
        rows = [f"{rule['rule']} (broken by {rule['broken']} of {self.rows} rows)" for rule in self.row_rules
                if not rule["valid"]]  # fmt: skip
        return "; ".join([*rows, *(str(rule["rule"]) for rule in self.table_rules if not rule["valid"])])


def apply_gate(
    frame: DataFrame, rules: QualityRules, mode: QualityMode, *, subject: str
) -> tuple[DataFrame, dict[str, object]]:
    """Return the accepted rows and the report; raises `QualityError` if the gate stops the run.

    A broken rule about the table cannot be fixed by a quarantine: it stops the run unless the mode is `pass`.
    """
    report = evaluate_rules(frame, rules)
    as_json = report.as_json(mode)
    if (mode is QualityMode.STOP and not report.is_valid) or (
        mode is QualityMode.QUARANTINE and not report.is_table_valid
    ):
        raise QualityError(
            f"{subject}: the quality gate stopped the run; broken rules: {report.describe_broken_rules()}."
            " Fix the data, or set SPRINGLINE_QUALITY_MODE to quarantine or pass",
            as_json,
        )
    if mode is QualityMode.QUARANTINE and report.broken_rows:
        flag = _free_name(frame)
        frame = frame.select("*", _breaks_any(rules.rows).alias(flag)).where(~F.col(flag)).drop(flag)
    return frame, as_json


def with_broken_rules(frame: DataFrame, rules: Sequence[QualityRule]) -> DataFrame:
    """Return `frame` with the additional column `broken_rules`: the names of the rules that each row breaks.

    Raises `ColumnsError` if it has a column of that name already.
    """
    if BROKEN_RULES_COLUMN in map(str.lower, frame.columns):
        raise ColumnsError(f"the table has a column {BROKEN_RULES_COLUMN} already, which the gate adds: rename it")
    names = F.array(*(F.when(rule.is_broken, F.lit(rule.name)) for rule in rules)).cast("array<string>")
    return frame.select("*", F.filter(names, F.isnotnull).alias(BROKEN_RULES_COLUMN))


def evaluate_rules(frame: DataFrame, rules: QualityRules) -> QualityReport:
    """Validate `frame` with Great Expectations; changes nothing, and sends nothing off this machine.

    Great Expectations sees generated names only, since a rule may be named like a column, or like another rule.
    """
    if missing := [name for name in rules.columns if name not in frame.columns]:
        raise ColumnsError(f"the quality gate needs the missing columns {', '.join(missing)}")
    flags = {f"rule{i}": rule.is_broken for i, rule in enumerate(rules.rows)} | {"any": _breaks_any(rules.rows)}
    results = _validate(frame.select(*(flag.cast("int").alias(name) for name, flag in flags.items())), flags, rules)
    sums = {name: int(results[name]["result"]["observed_value"] or 0) for name in flags}
    row_rules = tuple(
        {"rule": rule.name, "condition": rule.condition, "broken": broken, "valid": not broken}
        for rule, broken in zip(rules.rows, sums.values(), strict=False)
    )
    table_rules = (
        {"rule": f"has no more than {rules.most_rows:,} rows", "valid": bool(results[_ROW_COUNT]["success"])},
        *({"rule": f"has the column {name}", "valid": True} for name in rules.columns),
    )
    return QualityReport(int(results[_ROW_COUNT]["result"]["observed_value"]), sums["any"], row_rules, table_rules)


def _breaks_any(rules: Sequence[QualityRule]) -> Column:
    return reduce(Column.__or__, (rule.is_broken for rule in rules), F.lit(False))


def _free_name(frame: DataFrame) -> str:
    """Return a name that no column of `frame` has; upper and lower case are the same to Spark."""
    used_names = {name.lower() for name in frame.columns}
    return next(name for i in range(len(used_names) + 1) if (name := f"broken{i}") not in used_names)


def _validate(frame: DataFrame, flags: Iterable[str], rules: QualityRules) -> dict[str, Any]:
    """Return the results of Great Expectations by description of each expectation."""
    # The import takes seconds, and only the gate needs it.
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig
    from great_expectations.expectations import core as expect

    expected: Any = expect  # its classes are exported in a way that type checkers cannot follow
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    suite = gx.ExpectationSuite(
        name="rules",
        expectations=[
            *(expected.ExpectColumnSumToBeBetween(column=flag, max_value=0, description=flag) for flag in flags),
            expected.ExpectTableRowCountToBeBetween(max_value=rules.most_rows, description=_ROW_COUNT),
        ],
    )
    source = context.data_sources.add_spark("frames").add_dataframe_asset("frame")
    batch = source.add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": frame})
    validation = batch.validate(suite, result_format="BASIC")
    by_description = {_description(result): result.to_json_dict() for result in validation.results}
    if failed := [result["exception_info"] for result in by_description.values() if _has_exception(result)]:
        raise RuntimeError(f"Great Expectations failed: {json.dumps(failed[0])[:2000]}")
    return by_description


def _description(result: Any) -> str:
    return str(result.expectation_config.description)


def _has_exception(result: Mapping[str, Any]) -> bool:
    """Return whether evaluating an expectation raised an exception; Great Expectations reports it in two forms."""
    info = result.get("exception_info") or {}
    return bool(info.get("raised_exception", bool(info)))
