"""The five transforms: parse, clean, enrich, derive, rotate."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from springline.spark_jobs.nycflights import read_rows
from springline.spark_jobs.operations import Context, operation

NEW_YORK = "America/New_York"
MISSING = "NA"

_FLIGHT_NUMBERS = ("flight", "dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "distance", "minute")
_WEATHER_NUMBERS = ("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib")


@operation("etl.parse", sources={"flights": "etl/{ds}/load_flights"}, output="etl/{ds}/parse")
def parse(context: Context, flights: DataFrame) -> DataFrame:
    """Converts the flights to typed columns and UTC times; lists in each row the columns that cannot be parsed."""
    numbers = {name: _number(name, "int") for name in _FLIGHT_NUMBERS}
    hour = _text_or_null("time_hour").try_cast("timestamp")
    day = F.concat_ws("-", F.col("year"), F.lpad("month", 2, "0"), F.lpad("day", 2, "0")).try_cast("date")
    typed = {**numbers, "time_hour": hour, "day": day}
    unread = F.filter(F.array(*(_unreadable_name(name, typed[name]) for name in typed)), F.isnotnull)
    # The hour in the landing file is the scheduled one, in UTC; the minute is a separate column.
    scheduled = _add_minutes(hour, numbers["minute"])
    return flights.select(
        day.alias("day"),
        _text_or_null("carrier").alias("carrier"),
        numbers["flight"].alias("flight"),
        _text_or_null("tailnum").alias("tailnum"),
        _text_or_null("origin").alias("origin"),
        _text_or_null("dest").alias("dest"),
        hour.alias("weather_hour"),
        scheduled.alias("scheduled"),
        _add_minutes(scheduled, numbers["dep_delay"]).alias("departed"),
        *(numbers[name].alias(name) for name in ("dep_time", "dep_delay", "arr_time", "arr_delay")),
        *(numbers[name].alias(name) for name in ("air_time", "distance")),
        unread.alias("unread"),
    )


@operation("etl.clean", sources={"parsed": "etl/{ds}/parse"}, output="etl/{ds}/clean", checkpoint=True)
def clean(context: Context, parsed: DataFrame) -> DataFrame:
    """Keeps completed flights, without duplicates; rows that could not be parsed are left to the quality gate."""
    was_flown = F.col("departed").isNotNull() & F.col("arr_delay").isNotNull()
    retained_flights = parsed.where(was_flown | (F.size("unread") > 0))
    normalized = {name: F.upper(F.trim(F.col(name))) for name in ("carrier", "tailnum", "origin", "dest")}
    return retained_flights.withColumns(normalized).drop("dep_time", "arr_time").distinct()


@operation(
    "etl.enrich",
    sources={"cleaned": "etl/{ds}/clean", "weather": "etl/{ds}/load_weather"},
    output="etl/{ds}/enrich",
)
def enrich(context: Context, cleaned: DataFrame, weather: DataFrame) -> DataFrame:
    """Adds the weather at the origin, the carrier's name and the destination airport."""
    numbers = [_number(name, "double").alias(name) for name in _WEATHER_NUMBERS]
    measurements = weather.select(
        "origin", _text_or_null("time_hour").try_cast("timestamp").alias("weather_hour"), *numbers
    )
    # If an hour is duplicated in the weather, the flights of that hour must not be.
    hourly = measurements.groupBy("origin", "weather_hour").agg(F.min(F.struct(*_WEATHER_NUMBERS)).alias("weather"))
    carriers = _reference_table(context.spark, "airlines.csv", {"carrier": "carrier", "carrier_name": "name"})
    airports = _reference_table(
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
    """Adds the columns that the analyses use: delay class, route, local hour, speed and signs of bad weather."""
    arrival_delay = F.col("arr_delay")
    delay = (
        F.when(arrival_delay.isNull(), "unknown")
        .when(arrival_delay < 0, "early")
        .when(arrival_delay < 15, "on time")
        .when(arrival_delay < 60, "late")
        .when(arrival_delay < 180, "very late")
        .otherwise("extremely late")
    )
    signs = {
        "rain or snow": F.col("weather.precip") > 0,
        "strong wind": F.coalesce(F.col("weather.wind_gust"), F.col("weather.wind_speed")) > 25,
        "poor sight": F.col("weather.visib") < 3,
        "frost": F.col("weather.temp") < 32,
    }
    present_signs = F.filter(F.array(*(F.when(sign, name) for name, sign in signs.items())), F.isnotnull)
    return enriched.withColumns(
        {
            "delay_class": delay,
            "route": F.concat_ws("-", "origin", "dest"),
            "local_hour": F.hour(F.from_utc_timestamp("scheduled", NEW_YORK)),
            "speed_mph": F.col("distance") * 60.0 / F.nullif(F.col("air_time"), F.lit(0)),
            "weather_signs": present_signs,
        }
    )


@operation("etl.rotate", sources={"derived": "etl/{ds}/derive"}, output="etl/{ds}/rotate", idempotent=False)
def rotate(context: Context, derived: DataFrame) -> DataFrame:
    """Replaces tail numbers by pseudonyms with a new random salt, so that its output cannot be recomputed."""
    salt = secrets.token_hex(16)
    pseudonym = F.substring(F.sha2(F.concat(F.lit(salt), F.col("tailnum")), 256), 1, 12)
    return derived.withColumn("tailnum", pseudonym)


def _text_or_null(name: str) -> Column:
    """Return the text of a column, with null for missing values."""
    return F.nullif(F.trim(F.col(name)), F.lit(MISSING))


def _number(name: str, dtype: str) -> Column:
    return _text_or_null(name).try_cast(dtype)


def _unreadable_name(name: str, typed: Column) -> Column:
    return F.when(_text_or_null(name).isNotNull() & typed.isNull(), F.lit(name))


def _add_minutes(time: Column, minutes: Column) -> Column:
    return F.timestamp_add("MINUTE", minutes, time)


def _reference_table(spark: SparkSession, file: str, columns: Mapping[str, str]) -> DataFrame:
    """Read columns of a small reference file, renamed as in `columns`."""
    records = [tuple(row[column] for column in columns.values()) for row in read_rows(file)]
    return spark.createDataFrame(records, ", ".join(f"{name} string" for name in columns))
