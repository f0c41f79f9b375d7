"""The example workflow on the flights of 2013, enabled by `SPRINGLINE_OPERATIONS=springline.spark_jobs.etl`."""

# In the order of the workflow, because operations are listed in order of declaration.
# isort: off
from springline.spark_jobs.etl import load
from springline.spark_jobs.etl import transforms
from springline.spark_jobs.etl import gate
from springline.spark_jobs.etl import analyses
# isort: on

__all__ = ["analyses", "gate", "load", "transforms"]
