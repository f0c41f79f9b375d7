"""Back-pressure over HTTP: its status, and who changes it; `test_api` has the requests that are refused."""

from __future__ import annotations

import logging

from springline.airflow.api import PREFIX
from springline.spark_jobs.streaming.backpressure.config import DEFAULT_CONFIG, BackpressureConfig, read_config

BACKPRESSURE_URL = f"{PREFIX}/api/v1/streams/words/backpressure"
FLOW = {
    "upstreams": {"split": [], "retry": [], "count": ["split", "retry"], "acker": ["split", "retry", "count"]},
    "reads": {"split": "lines"},
    "results": {"count": "words.results"},
}
INSTALLED = {"modes": ["off", "predictive", "stepwise", "stepwise-literal"], "baselines": ["stepwise-literal"]}
THROTTLE = {"downstream": "count", "upstream": "split", "since": 1.0, "reason": "3 MB wait", "rate": 1e6}
COUNT = {
    "state": "overloaded", "queue": 3_000_000, "not_admitted": 1_000_000, "seconds": 1.5, "rate": None, "capacity": 2e6,
    "arriving": 2.5e6, "applied": 2e6, "throttled_by": [], "throttles": [{**THROTTLE, "throttle_level": 0}],
}  # fmt: skip


def test_queues_and_who_throttles_whom_are_shown_in_json(vera, words_job):
    """By the last heartbeat, with the state of the job; the job's status says the same.

    A job without a report, as one that ran before there was back-pressure, has its mode and no stages.
    """
    unreported = {"mode": "predictive", "signal_channel": None, "stages": {}, "bottleneck": ""}
    assert vera.get(BACKPRESSURE_URL).json() == {**FLOW, **INSTALLED, **unreported, "state": "dead"}
    heartbeat = words_job.heartbeat()
    assert heartbeat is not None
    pressed = {"mode": "predictive", "signal_channel": None, "stages": {"count": COUNT}}
    words_job.write_heartbeat({**heartbeat, "backpressure": pressed})
    with words_job.application_lock():
        body = vera.get(BACKPRESSURE_URL).json()
        assert vera.get(BACKPRESSURE_URL.removesuffix("/backpressure")).json()["backpressure"] == pressed
    stages = {"count": {**COUNT, "busy": 1.0}}
    assert body == {**pressed, **FLOW, **INSTALLED, "stages": stages, "state": "running", "bottleneck": "count"}


def test_a_mode_is_set_and_the_user_is_logged(ulla, words_job, caplog):
    """From then on."""
    with caplog.at_level(logging.INFO, logger="springline.airflow.api"):
        assert ulla.put(BACKPRESSURE_URL, json={"mode": "stepwise"}).json()["mode"] == "stepwise"
    assert read_config(words_job, DEFAULT_CONFIG) == BackpressureConfig("stepwise")
    assert "words: ulla has set back-pressure stepwise" in caplog.messages
