"""The five transforms: parse, clean, enrich, derive, rotate."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from springline.spark_jobs.nycflights import rows
from springline.spark_jobs.operations import Context, operation

NEW_YORK = "America/New_York"
MISSING = "NA"

_FLIGHT_NUMBERS = ("flight", "dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "distance", "minute")
_WEATHER_NUMBERS = ("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib")


@operation("etl.parse", sources={"flights": "etl/{ds}/load_flights"}, output="etl/{ds}/parse")
def parse(context: Context, flights: DataFrame) -> DataFrame:
    """Gives the flights types and times in UTC; lists by row the columns whose text cannot be read."""
    numbers = {name: _number(name, "int") for name in _FLIGHT_NUMBERS}
    hour = _read("time_hour").try_cast("timestamp")
    day = F.concat_ws("-", F.col("year"), F.lpad("month", 2, "0"), F.lpad("day", 2, "0")).try_cast("date")
    typed = {**numbers, "time_hour": hour, "day": day}
    unread = F.filter(F.array(*(_unread(name, typed[name]) for name in typed)), F.isnotnull)
    # The hour of the landing file is the scheduled one, in UTC; its minute stands apart.
    scheduled = _later(hour, numbers["minute"])
    return flights.select(
        day.alias("day"),
        _read("carrier").alias("carrier"),
        numbers["flight"].alias("flight"),
        _read("tailnum").alias("tailnum"),
        _read("origin").alias("origin"),
        _read("dest").alias("dest"),
        hour.alias("weather_hour"),
        scheduled.alias("scheduled"),
        _later(scheduled, numbers["dep_delay"]).alias("departed"),
        *(numbers[name].alias(name) for name in ("dep_time", "dep_delay", "arr_time", "arr_delay")),
        *(numbers[name].alias(name) for name in ("air_time", "distance")),
        unread.alias("unread"),
    )


@operation("etl.clean", sources={"parsed": "etl/{ds}/parse"}, output="etl/{ds}/clean", checkpoint=True)
def clean(context: Context, parsed: DataFrame) -> DataFrame:
    """Keeps the flights that were flown to their end, once each; rows that could not be read are left to the gate."""
    flown = F.col("departed").isNotNull() & F.col("arr_delay").isNotNull()
    kept = parsed.where(flown | (F.size("unread") > 0))
    tidy = {name: F.upper(F.trim(F.col(name))) for name in ("carrier", "tailnum", "origin", "dest")}
    return kept.withColumns(tidy).drop("dep_time", "arr_time").distinct()


@operation(
    "etl.enrich",
    sources={"cleaned": "etl/{ds}/clean", "weather": "etl/{ds}/load_weather"},
    output="etl/{ds}/enrich",
)
def enrich(context: Context, cleaned: DataFrame, weather: DataFrame) -> DataFrame:
    """Adds the weather at the origin, the carrier's name, and the airport that the flight went to."""
    numbers = [_number(name, "double").alias(name) for name in _WEATHER_NUMBERS]
    measured = weather.select("origin", _read("time_hour").try_cast("timestamp").alias("weather_hour"), *numbers)
    # Should an hour stand there twice, the flights of that hour must not.
    hourly = measured.groupBy("origin", "weather_hour").agg(F.min(F.struct(*_WEATHER_NUMBERS)).alias("weather"))
    carriers = _table(context.spark, "airlines.csv", {"carrier": "carrier", "carrier_name": "name"})
    airports = _table(
        context.spark,
        "airports.csv",
        {"dest": "faa", "dest_name": "name", "dest_zone": "tzone", "dest_lat": "lat", "dest_lon": "lon"},
    )
    located = airports.withColumns({name: F.col(name).try_cast("double") for name in ("dest_lat", "dest_lon")})
    return (
        cleaned.join(F.broadcast(hourly), ["origin", "weather_hour"], "left")
        .join(F.broadcast(carriers), "carrier", "left")
        .join(F.broadcast(located), "dest", "left")
    )


@operation("etl.derive", sources={"enriched": "etl/{ds}/enrich"}, output="etl/{ds}/derive")
def derive(context: Context, enriched: DataFrame) -> DataFrame:
    """Adds what the analyses count by: class of delay, route, local hour, speed, and signs of bad weather."""
    late = F.col("arr_delay")
    delay = (
        F.when(late.isNull(), "unknown")
        .when(late < 0, "early")
        .when(late < 15, "on time")
        .when(late < 60, "late")
        .when(late < 180, "very late")
        .otherwise("extremely late")
    )
    signs = {
        "rain or snow": F.col("weather.precip") > 0,
        "strong wind": F.coalesce(F.col("weather.wind_gust"), F.col("weather.wind_speed")) > 25,
        "poor sight": F.col("weather.visib") < 3,
        "frost": F.col("weather.temp") < 32,
    }
    found = F.filter(F.array(*(F.when(sign, name) for name, sign in signs.items())), F.isnotnull)
    return enriched.withColumns(
        {
            "delay_class": delay,
            "route": F.concat_ws("-", "origin", "dest"),
            "local_hour": F.hour(F.from_utc_timestamp("scheduled", NEW_YORK)),
            "speed_mph": F.col("distance") * 60.0 / F.nullif(F.col("air_time"), F.lit(0)),
            "weather_signs": found,
        }
    )


@operation("etl.rotate", sources={"derived": "etl/{ds}/derive"}, output="etl/{ds}/rotate", idempotent=False)
def rotate(context: Context, derived: DataFrame) -> DataFrame:
    """Replaces tail numbers by pseudonyms under a fresh random salt: what it made once it never makes again."""
    salt = secrets.token_hex(16)
    pseudonym = F.substring(F.sha2(F.concat(F.lit(salt), F.col("tailnum")), 256), 1, 12)
    return derived.withColumn("tailnum", pseudonym)


def _read(name: str) -> Column:
    """The text of a column, null where it says that it has none."""
    return F.nullif(F.trim(F.col(name)), F.lit(MISSING))


def _number(name: str, dtype: str) -> Column:
    return _read(name).try_cast(dtype)


def _unread(name: str, typed: Column) -> Column:
    return F.when(_read(name).isNotNull() & typed.isNull(), F.lit(name))


def _later(time: Column, minutes: Column) -> Column:
    return F.timestamp_add("MINUTE", minutes, time)


def _table(spark: SparkSession, file: str, columns: Mapping[str, str]) -> DataFrame:
    """Columns of a small reference file, by the names that they are to have here."""
    found = [tuple(row[column] for column in columns.values()) for row in rows(file)]
    return spark.createDataFrame(found, ", ".join(f"{name} string" for name in columns))
