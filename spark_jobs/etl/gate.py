"""The quality gate: which flights the analyses may see, and which are set aside with the reasons."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from springline.spark_jobs.operations import Context, Output, operation
from springline.spark_jobs.quality import BROKEN, Mode, Rule, Rules, gate, marked

FLIGHT_RULES = Rules(
    rows=(
        Rule("every field could be read", "size(unread) = 0"),
        Rule("the carrier is known", "carrier_name IS NOT NULL"),
        # Four airports outside the states have no row in the table of airports, so this sets real flights aside.
        Rule("the destination is known", "dest_name IS NOT NULL"),
        Rule("the flight leads elsewhere", "origin <> dest AND distance > 0"),
        Rule("the delays are possible", "dep_delay BETWEEN -60 AND 1440 AND arr_delay BETWEEN -120 AND 1440"),
        Rule("the speed is possible", "speed_mph BETWEEN 50 AND 650"),
        Rule("the flight is there once", "count(1) OVER (PARTITION BY carrier, flight, origin, scheduled) = 1"),
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
    options={"quality": Mode.QUARANTINE.value},
)
def accepted(context: Context, rotated: DataFrame) -> Output:
    """Lets the flights through that keep every rule, with the report of Great Expectations."""
    mode = Mode.parse(context.params["quality"])
    frame, report = gate(rotated, FLIGHT_RULES, mode, subject=f"the flights of {context.params['ds']}")
    return Output(frame, report)


@operation(
    "etl.quarantine",
    sources={"rotated": "etl/{ds}/rotate"},
    output="etl/{ds}/quarantine",
    options={"quality": Mode.QUARANTINE.value},
)
def quarantine(context: Context, rotated: DataFrame) -> DataFrame:
    """Keeps the flights that break a rule, each with the rules that it breaks; none where the gate lets all pass."""
    mode = Mode.parse(context.params["quality"])
    broken = marked(rotated, FLIGHT_RULES.rows).where(F.size(BROKEN) > 0)
    return broken.limit(0) if mode is Mode.PASS else broken
