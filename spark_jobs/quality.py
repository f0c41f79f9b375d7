"""Rules about rows and tables: declared once, judged by Great Expectations, and used to set rows aside.

A row rule is an SQL condition that every row has to meet. For the judgement each becomes a column that is 1 where
the condition is not met, whose sum Great Expectations expects to be 0: so all rules together cost one pass.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from springline.spark_jobs.errors import ColumnsError, ParameterError, QualityError

BROKEN = "broken_rules"
_ANY = "every row keeps every rule"


class Mode(StrEnum):
    """What happens to rows that break a rule: they go on, are set aside, or stop the run."""

    PASS = "pass"
    QUARANTINE = "quarantine"
    STOP = "stop"

    @staticmethod
    def parse(text: str) -> Mode:
        """Read a mode; raises `ParameterError`."""
        try:
            return Mode(text)
        except ValueError:
            raise ParameterError(f"quality={text!r}: it is one of {', '.join(Mode)}") from None


@dataclass(frozen=True)
class Rule:
    """What every row has to meet, in words and as an SQL condition; where that is null, the rule is broken."""

    name: str
    condition: str

    @property
    def broken(self) -> Column:
        """True where a row breaks it."""
        return ~F.coalesce(F.expr(self.condition), F.lit(False))


@dataclass(frozen=True)
class Rules:
    """The rules of a table: about its rows, the columns that it must have, the most rows that are believable."""

    rows: tuple[Rule, ...]
    columns: tuple[str, ...]
    most_rows: int


@dataclass(frozen=True)
class Report:
    """What the judgement found: rows, how many of them break a rule, and each rule's outcome."""

    rows: int
    broken_rows: int
    row_rules: tuple[Mapping[str, object], ...]
    table_rules: tuple[Mapping[str, object], ...]

    @property
    def table_held(self) -> bool:
        """Whether every rule about the table as a whole was kept."""
        return all(rule["held"] for rule in self.table_rules)

    @property
    def held(self) -> bool:
        """Whether every rule was kept."""
        return self.table_held and not self.broken_rows

    def as_json(self, mode: Mode) -> dict[str, object]:
        """The report as plain values, to be kept on the generation."""
        return {
            "mode": mode.value,
            "held": self.held,
            "rows": self.rows,
            "broken_rows": self.broken_rows,
            "accepted_rows": self.rows - (self.broken_rows if mode is Mode.QUARANTINE else 0),
            "row_rules": list(self.row_rules),
            "table_rules": list(self.table_rules),
        }

    def complaints(self) -> str:
        """The broken rules in one line of plain words."""
        rows = [f"{rule['rule']} ({rule['broken']} of {self.rows} rows do not)" for rule in self.row_rules
                if not rule["held"]]  # fmt: skip
        return "; ".join([*rows, *(str(rule["rule"]) for rule in self.table_rules if not rule["held"])])


def gate(frame: DataFrame, rules: Rules, mode: Mode, *, subject: str) -> tuple[DataFrame, dict[str, object]]:
    """The rows that may go on, and the report; raises `QualityError`.

    A broken rule about the table cannot be met by setting rows aside: it stops the run unless the mode is `pass`.
    """
    report = judge(frame, rules)
    as_json = report.as_json(mode)
    if (mode is Mode.STOP and not report.held) or (mode is Mode.QUARANTINE and not report.table_held):
        raise QualityError(
            f"{subject}: the quality gate stops the run: {report.complaints()}."
            " Mend the data, or let the rows pass with SPRINGLINE_QUALITY=quarantine or pass",
            as_json,
        )
    if mode is Mode.QUARANTINE and report.broken_rows:
        frame = marked(frame, rules.rows).where(F.size(BROKEN) == 0).drop(BROKEN)
    return frame, as_json


def marked(frame: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """`frame` with the names of the rules that each row breaks, in the column `broken_rules`."""
    names = F.array(*(F.when(rule.broken, F.lit(rule.name)) for rule in rules))
    return frame.select("*", F.filter(names, F.isnotnull).alias(BROKEN))


def judge(frame: DataFrame, rules: Rules) -> Report:
    """Let Great Expectations judge `frame`; nothing is changed, nothing leaves this machine."""
    if missing := [name for name in rules.columns if name not in frame.columns]:
        raise ColumnsError(f"the quality gate finds no column {', '.join(missing)}; the rows cannot be judged")
    broken = {rule.name: rule.broken for rule in rules.rows}
    flags = {name: column.cast("int") for name, column in broken.items()}
    flags[_ANY] = reduce(Column.__or__, broken.values()).cast("int")
    results = _validate(frame.select("*", *(flag.alias(name) for name, flag in flags.items())), list(flags), rules)
    sums = {name: int(results[name]["result"]["observed_value"] or 0) for name in flags}
    row_rules = tuple(
        {"rule": rule.name, "condition": rule.condition, "broken": sums[rule.name], "held": not sums[rule.name]}
        for rule in rules.rows
    )
    table_rules = tuple(
        {"rule": name, "held": bool(result["success"])} for name, result in results.items() if name not in flags
    )
    rows = int(results[_fewer(rules)]["result"]["observed_value"])
    return Report(rows, sums[_ANY], row_rules, table_rules)


def _validate(frame: DataFrame, flags: Sequence[str], rules: Rules) -> dict[str, Any]:
    """The results of Great Expectations by the words that describe each expectation."""
    # It takes seconds to import, and only the gate needs it.
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig
    from great_expectations.expectations import core as expect

    expected: Any = expect  # it exports its classes in a way that no type checker follows
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    suite = gx.ExpectationSuite(
        name="rules",
        expectations=[
            *(expected.ExpectColumnSumToBeBetween(column=flag, max_value=0, description=flag) for flag in flags),
            expected.ExpectTableRowCountToBeBetween(max_value=rules.most_rows, description=_fewer(rules)),
            *(
                expected.ExpectColumnToExist(column=name, description=f"has the column {name}")
                for name in rules.columns
            ),
        ],
    )
    source = context.data_sources.add_spark("frames").add_dataframe_asset("frame")
    batch = source.add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": frame})
    found = batch.validate(suite, result_format="BASIC")
    described = {_words(result): result.to_json_dict() for result in found.results}
    if failed := [result["exception_info"] for result in described.values() if _exception(result)]:
        raise RuntimeError(f"Great Expectations could not judge: {json.dumps(failed[0])[:2000]}")
    return described


def _words(result: Any) -> str:
    return str(result.expectation_config.description)


def _exception(result: Mapping[str, Any]) -> bool:
    """Whether Great Expectations gave up on an expectation; it says so in two forms."""
    said = result.get("exception_info") or {}
    return bool(said.get("raised_exception", bool(said)))


def _fewer(rules: Rules) -> str:
    return f"has no more than {rules.most_rows:,} rows"
