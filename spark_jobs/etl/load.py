"""Loading the landing files of a day: as they stand, every column as text.

Not idempotent: a landing file is outside and may be gone tomorrow, so what was loaded cannot be made again.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from springline.spark_jobs.landing import FLIGHTS, WEATHER, Feed
from springline.spark_jobs.operations import Context, operation
from springline.spark_jobs.parquet_io import spark_path


@operation("etl.load_flights", output="etl/{ds}/load_flights", idempotent=False)
def load_flights(context: Context) -> DataFrame:
    """Loads the flights of the day from its landing file."""
    return _loaded(context, FLIGHTS)


@operation("etl.load_weather", output="etl/{ds}/load_weather", idempotent=False)
def load_weather(context: Context) -> DataFrame:
    """Loads the weather of the day from its landing file."""
    return _loaded(context, WEATHER)


def _loaded(context: Context, feed: Feed) -> DataFrame:
    path = context.landing.file(context.params["ds"], feed.file, columns=feed.columns)
    schema = T.StructType([T.StructField(column, T.StringType()) for column in feed.columns])
    # A row with a field too few or too many ends the load, naming the file.
    return context.spark.read.csv(
        spark_path(str(path)), schema=schema, header=True, mode="FAILFAST", escape='"', enforceSchema=True
    )
