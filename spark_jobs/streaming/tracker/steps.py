"""Registers the steps of the tracker."""

from springline.spark_jobs.streaming.tracker.intake import Intake
from springline.spark_jobs.streaming.tracker.outcome import Outcome
from springline.spark_jobs.streaming.unitlog.stage import register_step

register_step("tracker.intake", Intake)
register_step("tracker.outcome", Outcome)
