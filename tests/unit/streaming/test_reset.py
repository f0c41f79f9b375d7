"""`stream reset`: what a stopped job stores is listed, deleted when that is confirmed, and nothing else is touched."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from typer.testing import Result

from springline.persistence.engine.runner import NoRunner
from springline.persistence.model.dataset import OperationResult, Origin, Phase, Strategy
from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings
from springline.spark_jobs.streaming.application import application
from springline.spark_jobs.streaming.checkpoints.files import write_files
from springline.spark_jobs.streaming.commands import reset
from springline.spark_jobs.streaming.errors import AlreadyRunningError, LogLostError, StreamError
from springline.spark_jobs.streaming.job import make_stages
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import read_jobs
from springline.spark_jobs.streaming.reset import job_topics, readers_of
from springline.spark_jobs.streaming.runtime.step import State
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.testing.memory_log import MemoryLog
from tests.support.commands import invoke
from tests.support.streams.declared_streams import save_states

STREAM = 'time = "t"\nfields = [["t", "timestamp(s)"], ["k", "text"]]\n'
DECLARED = f"""
[ticks]
topic = "clock"
[ticks.stream]
{STREAM}
[tocks]
topic = "ticks.results"
[tocks.stream]
{STREAM}
[words]
kind = "wordcount"
topic = "lines"
[orders]
kind = "tracker"
[pairs]
kind = "join"
on = "l.k = r.k"
[pairs.left]
topic = "one"
fields = [["k", "int"]]
[pairs.right]
topic = "two"
fields = [["k", "int"]]
"""
OWN = {
    "ticks.control", "ticks.dead-letters", "ticks.sink.rounds", "ticks.sink.reports", "ticks.map.rounds",
    "ticks.partials",
    "ticks.reduce.rounds", "ticks.map.reports", "ticks.reduce.reports",
    "ticks.reduce.state-requests", "ticks.reduce.state-replies",
    "ticks.results",
}  # fmt: skip
OTHERS = {"clock": 1, "words.results": 2, "ticks.more": 1}


class Log(MemoryLog):
    """What the command finds instead of Kafka."""

    def all_topics(self) -> frozenset[str]:
        return frozenset(self.topics)

    def remove(self, topics: Iterable[str]) -> None:
        for topic in topics:
            del self.topics[topic]

    def create(self, topics: object, **kinds: object) -> None: ...

    def units(self, topic: str) -> int:
        return len(self.topics[topic])

    def grow(self, topic: str, units: int = 1) -> int:
        return units

    def close(self) -> None: ...


class StoppedJob:
    """A home with the job `ticks`, which ran and was stopped, and a log."""

    def __init__(self, home: Path) -> None:
        self.settings = StreamSettings()
        self.folder = JobFolder(home / "streams" / "ticks")
        self.log = Log({**dict.fromkeys(OWN, 1), **OTHERS})
        self.folder.path.mkdir(parents=True)
        for name in ("registry.json", "backpressure.json", "log", "checkpoint/offsets"):
            (self.folder.path / name).parent.mkdir(exist_ok=True)
            (self.folder.path / name).write_text("{}")
        self.folder.write_heartbeat({"state": "stopped"})
        for folder in (self.settings.state_folder, self.settings.spill_folder):
            for job in ("ticks", "words"):
                (folder / job / "map" / "0").mkdir(parents=True)
                (folder / job / "map" / "0" / "run").write_bytes(b"1234")
        operation_result = OperationResult(1, "digest", 0.0, {"incarnation": 1, "round": 4, "offsets": {"0": 40}})
        with self.platform() as platform:
            for path in ("ticks/map/0", "ticks/savepoints/s", "ticks/results/1", "ticks/ranges/x", "words/split/0"):
                origin = Origin("stream_ticks")
                write_files(
                    platform, f"streams/{path}", {"f": b"12"}, operation_result, origin, strategy=Strategy.CACHE_THROUGH
                )

    def platform(self) -> closing[Platform]:
        return closing(open_platform(Settings(), runner=NoRunner()))

    def paths(self) -> set[str]:
        """The datasets that are there."""
        with self.platform() as platform:
            return {dataset.ref.path for dataset in platform.catalog.find(phase=Phase.COMMITTED)}

    def files(self) -> set[str]:
        """What is in the job's folder, but its lock."""
        return {path.name for path in self.folder.path.glob("*")} - {"lock"}

    def forget(self, *options: str, answer: str = "") -> Result:
        return invoke("stream", "reset", "ticks", *options, input=answer)


@pytest.fixture
def stopped_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoppedJob:
    """The home, its declarations, and a log in place of Kafka."""
    (tmp_path / "streams.toml").write_text(DECLARED)
    for name, value in (
        ("HOME", str(tmp_path)), ("STREAMS_FILE", str(tmp_path / "streams.toml")), ("CACHE_URI", f"file://{tmp_path}/cache"),
        ("STREAM_STATE_DIR", str(tmp_path / "states")),
    ):  # fmt: skip
        monkeypatch.setenv(f"SPRINGLINE_{name}", value)
    new_stopped_job = StoppedJob(tmp_path)
    monkeypatch.setattr(reset, "opened_log", lambda: nullcontext(new_stopped_job.log))
    return new_stopped_job


def test_all_that_a_job_stores_is_listed_and_deleted_and_nothing_else(stopped_job: StoppedJob) -> None:
    """What it reads stays, what other jobs keep, answers over ranges, and what people have chosen."""
    result = stopped_job.forget("--yes")
    assert result.exit_code == 0, result.output
    assert f"12 topics: {', '.join(sorted(OWN))}" in result.output
    assert "1 result dataset, 1 saved state, 1 savepoint; 6 B" in result.output
    assert f"states in {stopped_job.settings.state_folder / 'ticks'}: 4 B" in result.output
    assert "checkpoint, heartbeat.json" in result.output and "its next start begins from scratch" in result.output
    assert stopped_job.log.topics.keys() == OTHERS.keys()
    assert stopped_job.paths() == {"streams/ticks/ranges/x", "streams/words/split/0"}
    assert stopped_job.files() == {"registry.json", "backpressure.json", "log"}
    for folder in (stopped_job.settings.state_folder, stopped_job.settings.spill_folder):
        assert {path.name for path in folder.iterdir()} == {"words"}
    assert stopped_job.forget("--yes").output == "ticks: there is nothing to delete\n"


def test_queries_are_forgotten_when_that_is_asked_for(stopped_job: StoppedJob) -> None:
    """So that a changed declaration counts."""
    stopped_job.forget("--yes", "--queries")
    assert stopped_job.files() == {"backpressure.json", "log"}


def test_a_job_that_runs_is_not_forgotten(stopped_job: StoppedJob) -> None:
    """The error says how to stop it."""
    with stopped_job.folder.application_lock():
        result = stopped_job.forget("--yes")
    assert isinstance(result.exception, AlreadyRunningError)
    assert "ticks: it is running; stop it first: springline stream stop ticks" in str(result.exception)
    assert len(stopped_job.log.topics) == len(OWN) + len(OTHERS)


@pytest.mark.parametrize(("answer", "is_deleted"), [("y\n", True), ("n\n", False), ("", False)])
def test_a_person_is_asked_first(
    stopped_job: StoppedJob, monkeypatch: pytest.MonkeyPatch, answer: str, is_deleted: bool
) -> None:
    """Whoever says nothing has not agreed."""
    monkeypatch.setattr(reset, "_on_terminal", lambda: True)
    result = stopped_job.forget(answer=answer)
    assert "Delete all this?" in result.output and result.exit_code == (0 if is_deleted else 1)
    assert ("ticks.results" not in stopped_job.log.topics) == is_deleted
    assert ("heartbeat.json" not in stopped_job.files()) == is_deleted


def test_without_a_terminal_a_reset_has_to_be_confirmed_by_an_option(stopped_job: StoppedJob) -> None:
    """A script says --yes."""
    result = stopped_job.forget()
    assert isinstance(result.exception, StreamError)
    assert "nothing was deleted: without a terminal, give --yes" in str(result.exception)
    assert len(stopped_job.log.topics) == len(OWN) + len(OTHERS)


def test_the_jobs_that_read_what_is_deleted_are_listed(stopped_job: StoppedJob) -> None:
    """They must be forgotten too, or go back."""
    assert "The job tocks reads the results of ticks" in stopped_job.forget("--yes").output
    jobs = read_jobs(stopped_job.settings.declarations)
    assert readers_of(["one"], iter(jobs.values())) == ["pairs"]


def test_the_topics_of_each_kind_of_job_are_known(stopped_job: StoppedJob) -> None:
    """Also without Kafka; those that others write are not among them."""
    jobs = read_jobs(stopped_job.settings.declarations)
    assert job_topics(jobs["ticks"]) == OWN
    assert {"words.words", "words.acks", "words.feedback", "words.retry.rounds"} < job_topics(jobs["words"])
    assert {"pairs.copies", "pairs.tuples"} < job_topics(jobs["pairs"])
    assert "orders.results" in job_topics(jobs["orders"]) and "orders.requests" not in job_topics(jobs["orders"])
    for job in jobs.values():
        assert not {"lines", "one", "two", "clock"} & job_topics(job)


def test_states_of_another_kafka_are_an_error(
    stopped_job: StoppedJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it starts anything; the heartbeat reports it too."""
    job = read_jobs(stopped_job.settings.declarations)["ticks"]
    stages = {stage.name: stage for stage in make_stages(job, stopped_job.settings)}
    save_states(stages["map"], [State()], (1, 7), tmp_path / "scratch")
    monkeypatch.setattr(application, "Kafka", lambda cluster: stopped_job.log)
    for topic in ("clock", *OWN):
        stopped_job.log.topics[topic] = [[]] * (2 if topic == "ticks.partials" else 1)
    (stopped_job.folder.path / "registry.json").unlink()
    with pytest.raises(LogLostError, match=r"ticks\.map\[0\].*stream reset ticks"):
        application.run_job(job, stopped_job.settings)
    assert "stream reset ticks" in (stopped_job.folder.heartbeat() or {})["error"]
