"""The quality gate: accepts flights for the analyses, and quarantines the others with the reasons."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from springline.spark_jobs.operations import Context, OperationOutput, operation
from springline.spark_jobs.quality import (
    BROKEN_RULES_COLUMN,
    QualityMode,
    QualityRule,
    QualityRules,
    apply_gate,
    with_broken_rules,
)

FLIGHT_RULES = QualityRules(
    rows=(
        QualityRule("all fields parsed", "size(unread) = 0"),
        QualityRule("the carrier is known", "carrier_name IS NOT NULL"),
        # Four airports outside the states have no row in the table of airports, so this rule quarantines real flights.
        QualityRule("the destination is known", "dest_name IS NOT NULL"),
        QualityRule("origin and destination differ", "origin <> dest AND distance > 0"),
        QualityRule("the delays are plausible", "dep_delay BETWEEN -60 AND 1440 AND arr_delay BETWEEN -120 AND 1440"),
        QualityRule("the speed is plausible", "speed_mph BETWEEN 50 AND 650"),
        QualityRule("the flight is unique", "count(1) OVER (PARTITION BY carrier, flight, origin, scheduled) = 1"),
    ),
    columns=(
        *("carrier", "carrier_name", "flight", "tailnum", "origin", "dest", "dest_name", "distance", "scheduled"),
        *("dep_delay", "arr_delay", "speed_mph", "unread", "delay_class", "route", "weather_signs"),
    ),
    most_rows=100_000_000,
)


@operation(
    "etl.accepted",
    sources={"rotated": "etl/{ds}/rotate"},
    output="etl/{ds}/accepted",
    checkpoint=True,
    options={"quality": QualityMode.QUARANTINE.value},
)
def accepted(context: Context, rotated: DataFrame) -> OperationOutput:
    """Accepts the flights that meet every rule, with the report of Great Expectations."""
    mode = QualityMode.parse(context.params["quality"])
    frame, report = apply_gate(rotated, FLIGHT_RULES, mode, subject=f"the flights of {context.params['ds']}")
    return OperationOutput(frame, report)


@operation(
    "etl.quarantine",
    sources={"rotated": "etl/{ds}/rotate"},
    output="etl/{ds}/quarantine",
    options={"quality": QualityMode.QUARANTINE.value},
)
def quarantine(context: Context, rotated: DataFrame) -> DataFrame:
    """Collects the flights that break a rule, each with the rules that it breaks; none if the mode is `pass`."""
    mode = QualityMode.parse(context.params["quality"])
    broken_rows = with_broken_rules(rotated, FLIGHT_RULES.rows).where(F.size(BROKEN_RULES_COLUMN) > 0)
    return broken_rows.limit(0) if mode is QualityMode.PASS else broken_rows
