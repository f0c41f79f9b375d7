"""The steps of windowed statistics, by name."""

from __future__ import annotations

from spark_jobs.streaming.unitlog.stage import register_step
from spark_jobs.streaming.windows.map import Mapper
from spark_jobs.streaming.windows.reduce import Reducer

register_step("windows.map", Mapper)
register_step("windows.reduce", Reducer)
