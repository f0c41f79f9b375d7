"""Whatever rates a job is granted and whenever they end, each record counts once, also where processes die."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.backpressure.accounting import StageAccounting
from springline.spark_jobs.streaming.backpressure.rate_limit import Credit, RateLimit, RateLimiter, write_grant
from springline.spark_jobs.streaming.tracking.config import TrackingConfig
from springline.spark_jobs.streaming.wordcount.job import WordCountJob
from tests.support.examples import examples
from tests.support.streams.tracked_simulation import TrackedSimulation

Limits = tuple[float | None, int | None]  # rate, credit
TEXTS = [f"a b{number % 3}\nthe log c{number}" for number in range(24)]
GRANTS = st.lists(
    st.tuples(
        st.dictionaries(
            st.sampled_from(["split", "retry", "count", "acker"]),
            st.tuples(st.none() | st.floats(1.0, 2_000.0), st.none() | st.integers(-100, 500)),
        ),
        st.floats(0.0, 1.5),  # seconds of the lease
        st.none() | st.integers(0, 60),  # calls of the log until the process dies
    ),
    min_size=5,
    max_size=40,
)


class ThrottledSimulation(TrackedSimulation):
    """Whose planners are granted rates and credits."""

    def start(self) -> None:
        super().start()
        for stage in self.stages:
            self.planners[stage.name]._admission_limit = RateLimiter(stage, self.folder.path)

    def grant(self, limits: dict[str, Limits], seconds: float) -> None:
        """Rates and credits for so many seconds from now on; messages have about 50 bytes."""
        for stage in self.stages:
            rate, credit = limits.get(stage.name, (None, None))
            after_round = max((report.round for report in self.reports.reports(stage.name).values()), default=0)
            limit = RateLimit(rate, 50.0, None if credit is None else Credit(credit, after_round))
            write_grant(self.folder.path, stage.name, limit, self.clock + seconds)


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(GRANTS)
def test_nothing_is_lost_or_doubled_under_any_limits(grants: list[tuple[dict[str, Limits], float, int | None]]) -> None:
    """And at the end everything that was sent has been taken, to the byte."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        job = WordCountJob("w", "lines", TrackingConfig("w", 2, 4, timeout=30.0), max_messages_per_round=3)
        simulation = ThrottledSimulation(job, Path(folder))
        simulation.feed(*TEXTS)
        for limits, seconds, dies_in in grants:
            simulation.grant(limits, seconds)
            simulation.crash(dies_in)
        simulation.finish()
        assert simulation.counts() == Counter(" ".join(TEXTS).split())
        assert not simulation.dead()
        counting = StageAccounting(simulation.folder.path, simulation.stages, 2, simulation.reports)
        counted = counting.count(simulation.clock)
        queues = {name: counted[name].queue for name, upstreams in counting.upstreams.items() if upstreams}
        assert queues["count"] == 0 and counted["count"].applied > 0
