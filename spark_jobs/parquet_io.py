"""Tables at URIs: reading one as a DataFrame, writing one with its digest gathered in the same pass."""

from __future__ import annotations

import re

from pyspark.sql import DataFrame, Observation, SparkSession

from springline.spark_jobs.digest import TableDigest, digest_of, metrics

_GLOB = re.compile(r"([\[\]{}*?])")


def spark_path(uri: str) -> str:
    """A URI as Spark's readers take it: a bare path is a file's, and brackets and stars stand for themselves.

    Args:
        uri: a URI, or an absolute path on this machine.

    Example:
        >>> spark_path("/landing/2026-03-02/sales.csv")
        'file:///landing/2026-03-02/sales.csv'
    """
    with_scheme = f"file://{uri}" if uri.startswith("/") else uri
    return _GLOB.sub(r"\\\1", with_scheme)


def read_table(spark: SparkSession, uri: str) -> DataFrame:
    """The table at `uri`."""
    return spark.read.parquet(spark_path(uri))


def write_table(frame: DataFrame, uri: str, *, digits: int, again: bool = False) -> TableDigest:
    """Write `frame` to `uri` and return its digest; `again` clears what a broken try has left there.

    Raises `DigestError` before anything is written.
    """
    schema = frame.schema
    wanted = metrics(schema, digits)
    observation = Observation()
    target = f"file://{uri}" if uri.startswith("/") else uri  # writers take every character as it stands
    frame.observe(observation, *wanted).write.mode("overwrite" if again else "error").parquet(target)
    observed = observation.get
    if "rows" not in observed:  # Spark found a plan without the observer: rare, so a second pass may cost
        return digest_of_table(read_table(frame.sparkSession, uri), digits=digits)
    return digest_of(schema, digits, observed)


def digest_of_table(frame: DataFrame, *, digits: int) -> TableDigest:
    """The digest of a table by a pass of its own."""
    schema = frame.schema
    row = frame.agg(*metrics(schema, digits)).collect()[0]
    return digest_of(schema, digits, row.asDict())
