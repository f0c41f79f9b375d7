"""Registers the step of ackers."""

from spark_jobs.streaming.tracking.acker import Acker
from spark_jobs.streaming.unitlog.stage import register_step

register_step("tracking.acker", Acker)
