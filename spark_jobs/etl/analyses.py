"""The four analyses: each counts flights by key."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from springline.spark_jobs.operations import Context, operation

CALM = "no bad weather"


@operation("etl.carriers", sources={"accepted": "etl/{ds}/accepted"}, output="etl/{ds}/carriers")
def carriers(context: Context, accepted: DataFrame) -> DataFrame:
    """Counts flights by carrier and delay class."""
    return accepted.groupBy("carrier", "carrier_name", "delay_class").agg(F.count("*").alias("flights"))


@operation("etl.routes", sources={"accepted": "etl/{ds}/accepted"}, output="etl/{ds}/routes")
def routes(context: Context, accepted: DataFrame) -> DataFrame:
    """Counts flights, and those that arrived at least 15 minutes late, by route."""
    return accepted.groupBy("route").agg(
        F.count("*").alias("flights"),
        F.count_if(F.col("arr_delay") >= 15).alias("late"),
        F.countDistinct("carrier").alias("carriers"),
    )


@operation("etl.causes", sources={"accepted": "etl/{ds}/accepted"}, output="etl/{ds}/causes")
def causes(context: Context, accepted: DataFrame) -> DataFrame:
    """Counts flights by sign of bad weather at the origin and by delay class, like a word count."""
    signs = F.when(F.size("weather_signs") > 0, F.col("weather_signs")).otherwise(F.array(F.lit(CALM)))
    sign_rows = accepted.select("delay_class", F.explode(signs).alias("sign"))
    return sign_rows.groupBy("sign", "delay_class").agg(F.count("*").alias("flights"))


@operation("etl.hours", sources={"derived": "etl/{ds}/derive"}, output="etl/{ds}/hours")
def hours(context: Context, derived: DataFrame) -> DataFrame:
    """Counts all completed flights, quarantined or not, by origin and local hour, with the mean departure delay."""
    return derived.groupBy("origin", "local_hour").agg(
        F.count("*").alias("flights"), F.avg("dep_delay").alias("mean_dep_delay")
    )
