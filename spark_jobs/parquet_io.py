"""Reads tables at URIs as DataFrames, and writes them, computing the digest in the same pass."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql import DataFrame, Observation, SparkSession

from springline.spark_jobs.digest import TableDigest, digest_of, digest_of_table, observe_digest

_GLOB = re.compile(r"([\\\[\]{}*?])")


def spark_path(uri: str) -> str:
    """Convert a URI for Spark's readers: a path becomes a file URI, `s3` is called `s3a`; glob characters are escaped.

    Args:
        uri: a URI, or an absolute path on this machine.

    Example:
        >>> spark_path("/landing/2026-03-02/sales.csv")
        'file:///landing/2026-03-02/sales.csv'
    """
    with_scheme = f"file://{uri}" if uri.startswith("/") else uri.replace("s3://", "s3a://", 1)
    return _GLOB.sub(r"\\\1", with_scheme)


def read_table(spark: SparkSession, uri: str) -> DataFrame:
    """Read the table at `uri`."""
    return spark.read.parquet(spark_path(uri))


def write_table(frame: DataFrame, uri: str, *, digits: int, overwrite: bool = False) -> TableDigest:
    """Write `frame` to `uri` and return its digest; `overwrite` deletes the leftovers of a failed try first.

    Raises `DigestError` before anything is written.
    """
    schema = frame.schema
    observation = Observation()
    observed_frame = observe_digest(frame, observation, digits)
    target = f"file://{uri}" if uri.startswith("/") else uri  # writers expand no globs
    writer = observed_frame.write.mode("overwrite" if overwrite else "error")
    # Every file in the folder is part of the dataset, and stored twice: so there are only those with rows.
    writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(target)
    if target.startswith("file://"):
        for checksum in Path(target.removeprefix("file://")).glob(".*.crc"):  # Hadoop's, of each file
            checksum.unlink()
    observed_metrics = observation.get
    if "rows" not in observed_metrics:  # Spark optimized the observation away: rare, so a second pass is acceptable
        return digest_of_table(read_table(frame.sparkSession, uri), digits=digits)
    return digest_of(schema, digits, observed_metrics)
