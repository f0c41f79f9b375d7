"""Registers the steps of tracking."""

from springline.spark_jobs.streaming.runtime.stage import register_step
from springline.spark_jobs.streaming.tracking.acker.acker import Acker
from springline.spark_jobs.streaming.tracking.replay.message_mode import lost

register_step("tracking.acker", Acker)
register_step("tracking.lost", lost)
