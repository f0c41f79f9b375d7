"""Registers the steps of tracking."""

from springline.spark_jobs.streaming.tracking.acker import Acker
from springline.spark_jobs.streaming.tracking.messages import lost
from springline.spark_jobs.streaming.unitlog.stage import register_step

register_step("tracking.acker", Acker)
register_step("tracking.lost", lost)
