"""Back-pressure over HTTP: its status, who changes it, and which requests are refused."""

from __future__ import annotations

import logging

import pytest
from fastapi.testclient import TestClient

from springline.airflow.api import PREFIX
from springline.spark_jobs.streaming.backpressure.config import DEFAULT_CONFIG, BackpressureConfig, read_config
from springline.spark_jobs.streaming.job_folder import JobFolder

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


def test_queues_and_who_throttles_whom_are_shown_in_json(vera: TestClient, words_job: JobFolder) -> None:
    """By the last heartbeat, with the state of the job; the job's status says the same."""
    heartbeat = words_job.heartbeat()
    assert heartbeat is not None
    pressed = {"mode": "predictive", "signal_channel": None, "stages": {"count": COUNT}}
    words_job.write_heartbeat({**heartbeat, "backpressure": pressed})
    with words_job.application_lock():
        body = vera.get(BACKPRESSURE_URL).json()
        assert vera.get(BACKPRESSURE_URL.removesuffix("/backpressure")).json()["backpressure"] == pressed
    stages = {"count": {**COUNT, "busy": 1.0}}
    assert body == {**pressed, **FLOW, **INSTALLED, "stages": stages, "state": "running", "bottleneck": "count"}


def test_a_job_without_a_report_has_its_mode_and_no_stages(vera: TestClient, words_job: JobFolder) -> None:
    """As one that ran before there was back-pressure."""
    body = vera.get(BACKPRESSURE_URL).json()
    assert body == {
        **FLOW, **INSTALLED, "state": "dead", "mode": "predictive", "signal_channel": None, "stages": {},
        "bottleneck": "",
    }  # fmt: skip


def test_a_mode_is_set_and_the_user_is_logged(
    ulla: TestClient, words_job: JobFolder, caplog: pytest.LogCaptureFixture
) -> None:
    """From then on."""
    with caplog.at_level(logging.INFO, logger="springline.airflow.api"):
        assert ulla.put(BACKPRESSURE_URL, json={"mode": "stepwise"}).json()["mode"] == "stepwise"
    assert read_config(words_job, DEFAULT_CONFIG) == BackpressureConfig("stepwise")
    assert "words: ulla has set back-pressure stepwise" in caplog.messages


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ({"mode": "sometimes"}, "ExtensionError", "installed: off, predictive, stepwise; "),
        ({"signal_channel": "zookeeper"}, "InvalidChannelError", ""),
    ],
)
def test_an_unknown_mode_and_a_channel_where_signals_need_none_are_refused(
    ulla: TestClient, words_job: JobFolder, body: dict[str, str], error: str, message: str
) -> None:
    """In the shape of all errors; all stages run in one application, whose signals need no channel."""
    answer = ulla.put(BACKPRESSURE_URL, json=body)
    assert (answer.status_code, answer.json()["error"]) == (422, error)
    assert message in answer.json()["detail"]
    assert read_config(words_job, DEFAULT_CONFIG) == DEFAULT_CONFIG
