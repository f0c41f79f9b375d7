"""The steps of windowed statistics, by name."""

from __future__ import annotations

from springline.spark_jobs.streaming.runtime.stage import register_step
from springline.spark_jobs.streaming.tracking.replay.message_mode import Sink, Spring
from springline.spark_jobs.streaming.windows.mapper import Mapper
from springline.spark_jobs.streaming.windows.reducer import Reducer


def tracked_map(stream: str, units: int) -> Spring:
    """A mapper whose messages are tracked."""
    return Spring(Mapper(stream, units), units)


def tracked_reduce(stream: str, source: str) -> Sink:
    """A reducer that ends what such mappers have sent."""
    return Sink(Reducer(stream, source))


register_step("windows.map", Mapper)
register_step("windows.reduce", Reducer)
register_step("windows.tracked_map", tracked_map)
register_step("windows.tracked_reduce", tracked_reduce)
