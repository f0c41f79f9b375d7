"""The workflow over the flights of 2013, an example: `SPRINGLINE_OPERATIONS=springline.spark_jobs.etl` asks for it."""

# In the order of the workflow: operations are listed as they are declared.
# isort: off
from springline.spark_jobs.etl import load
from springline.spark_jobs.etl import transforms
from springline.spark_jobs.etl import gate
from springline.spark_jobs.etl import analyses
# isort: on

__all__ = ["analyses", "gate", "load", "transforms"]
