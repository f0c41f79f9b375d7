"""Loads the landing files of a day unchanged, every column as text.

Not idempotent: a landing file is external and may be deleted, so the loaded data cannot be recomputed.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from springline.spark_jobs.landing import FLIGHTS, WEATHER, LandingFeed
from springline.spark_jobs.operations import Context, operation
from springline.spark_jobs.parquet_io import spark_path


@operation("etl.load_flights", output="etl/{ds}/load_flights", idempotent=False)
def load_flights(context: Context) -> DataFrame:
    """Loads the flights of the day from its landing file."""
    return _load_feed(context, FLIGHTS)


@operation("etl.load_weather", output="etl/{ds}/load_weather", idempotent=False)
def load_weather(context: Context) -> DataFrame:
    """Loads the weather of the day from its landing file."""
    return _load_feed(context, WEATHER)


def _load_feed(context: Context, feed: LandingFeed) -> DataFrame:
    path = context.landing.file(context.params["ds"], feed.file, columns=feed.columns)
    schema = T.StructType([T.StructField(column, T.StringType()) for column in feed.columns])
    # A row with too few or too many fields fails the load, with the name of the file.
    return context.spark.read.csv(
        spark_path(path), schema=schema, header=True, mode="FAILFAST", escape='"', enforceSchema=True
    )
