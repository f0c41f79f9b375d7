"""Registers the steps of the tracker."""

from springline.spark_jobs.streaming.runtime.stage import register_step
from springline.spark_jobs.streaming.tracker.intake import Intake
from springline.spark_jobs.streaming.tracker.outcome import Outcome

register_step("tracker.intake", Intake)
register_step("tracker.outcome", Outcome)
