"""What the demo shows of its streams, and the fault that it makes: whom it kills, what it counts as healed."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections import Counter

import pytest
from rich.console import Console

from springline.persistence.backends.local import LocalBackend
from springline.persistence.model.dataset import CacheState, Phase, Ref, StateChange, UnderStoreState
from springline.services.airflow_api import TaskState
from springline.services.demo.fault import check_running, pause_persister
from springline.services.demo.fault_injection import delete_folder, group_of, wipe_cache
from springline.services.demo.outcome import join_outcome, streams_table, tracked_outcome, windows_outcome
from springline.services.demo.recovery_report import (
    RecoveredItem,
    cache_recovery_since,
    count_words,
    format_difference,
    format_harm,
    newest_counts,
    recovery_table,
)
from springline.services.demo.streams import await_start, format_state, has_caught_up, needs_run
from springline.services.demo.terminal import main
from springline.services.errors import ServiceError
from springline.services.supervisor import Supervisor
from springline.spark_jobs.streaming.application.status import JobStatus
from tests.support.streams.declared_streams import ticks_heartbeat, words_heartbeat

NOW = 1_700_000_000.0


def job_status(job="words", state="running", began=NOW - 100, at=NOW, lag=0, pid=None, **more):
    """A job with one stage that ended a round at `at`."""
    return JobStatus(
        job, state, started_at=began, stages={"split": {"round_ended_at": at, "lag": lag}}, pid=pid, **more
    )


def printed(table):
    """A table as it is printed."""
    out = io.StringIO()
    Console(file=out, width=160).print(table)
    return out.getvalue()


# ---- the results of the streams


def test_the_table_of_streams_shows_the_result_of_each():
    """Windows and their results, roots and what became of them, pairs and loads, and who throttles whom, if any."""
    ticks, counting = ticks_heartbeat(10), words_heartbeat(10)
    windows = JobStatus("ticks", "running", stages=ticks["stages"], backpressure=ticks["backpressure"])
    tracked = JobStatus("words", "running", stages=counting["stages"], tracking=counting["tracking"])
    join_stages = {"route": {"counts": {"rows": 600}}, "join": {"counts": {"pairs": 22_650}}}
    join = JobStatus("pairs", "stopped", stages=join_stages)
    loads = {"messages_per_tuple": 1.05, "units": 3, "imbalance": 0.021}
    rows = (windows_outcome("windows", windows), tracked_outcome("words", tracked), join_outcome("join", join, loads))
    output = printed(streams_table(rows))
    for fact in (
        "1,324,567", "180 window results", "12 late rows, 2 dead letters", "reduce throttles map", "48.2 MB queued",
        "56,100", "56,800 roots completed, 41 in flight", "12 retried, 2 failed",
        "stopped", "22,650 pairs, 1.05 messages per tuple", "imbalance of 3 units: 2.1%",
    ):  # fmt: skip
        assert fact in output
    never = JobStatus("words", "never started")
    rows = (windows_outcome("a", never), tracked_outcome("b", never), join_outcome("c", never, None))
    assert "never started" in printed(streams_table(rows))


def test_a_stream_is_started_unless_a_run_of_it_lives():
    """Where it was stopped, its run is about to end, and the next one waits for that."""
    assert needs_run(job_status(), [])
    assert not needs_run(job_status(), ["running"])
    assert not needs_run(job_status(state="dead"), ["running"])
    assert needs_run(job_status(state="stopped"), ["running"])
    assert not needs_run(job_status(state="stopped"), ["running", "queued"])


def test_a_stream_has_taken_all_when_nothing_waits_before_any_stage():
    """Messages in the topic, bytes between stages, roots in flight: each is something."""
    assert has_caught_up(job_status())
    assert has_caught_up(job_status(tracking={"in_flight": 0}, backpressure={"stages": {"split": {"queue": 0}}}))
    assert not has_caught_up(job_status(lag=3))
    assert not has_caught_up(job_status(backpressure={"stages": {"split": {"queue": 0}, "count": {"queue": 512}}}))
    assert not has_caught_up(job_status(tracking={"in_flight": 1}))
    assert not has_caught_up(job_status(state="dead"))


class Starting:
    """Stands where the streams of the demo are: each step takes the next status of the only one, the last for ever."""

    def __init__(self, *statuses):
        self.left = list(statuses)

    def step(self, progress):
        if len(self.left) > 1:
            self.left.pop(0)

    def statuses(self):
        return self.left[:1]


def test_the_workflow_waits_until_the_streams_run_and_no_longer_than_one_makes_progress():
    """A start takes what the machine has; and a stream that does not start stops only itself."""
    out = io.StringIO()
    streams = Starting(JobStatus("words", "never started"), JobStatus("words", "running"), job_status())
    await_start(streams, Console(file=out), lambda: None)
    assert streams.statuses()[0].is_ready and "without waiting" not in out.getvalue()
    await_start(Starting(JobStatus("words", "dead")), Console(file=out, width=160), lambda: None, patience=0.1)
    assert "words is dead: the workflow begins without waiting longer" in out.getvalue()


def test_a_stream_on_its_way_is_said_to_start():
    """It may be silent for long, before it first beats."""
    formatted = [format_state(JobStatus("words", state)) for state in ("running", "silent", "dead")]
    assert formatted == ["starting", "starting", "dead"]


def test_an_interrupted_demo_ends_without_a_traceback(capsys):
    """The exit status is that of an interrupted command."""

    def run(console):
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as exit_info:
        main(run)
    captured = capsys.readouterr()
    assert exit_info.value.code == 130 and "Traceback" not in captured.out + captured.err


# ---- the fault


@pytest.fixture
def start():
    """Starts a process that has given words on its command line, in a group of its own or not."""
    started = []

    def start(*arguments, alone=True):
        command = [sys.executable, "-c", "import time; print('', flush=True); time.sleep(60)", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=alone)
        process.stdout.readline()
        started.append(process)
        return process.pid

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_the_group_of_the_application_is_found_by_its_heartbeat(start):
    """The process leads it."""
    pid = start("stream", "run", "words")
    assert group_of(job_status(pid=pid)) == pid == os.getpgid(pid)


def test_a_process_that_is_not_the_application_is_left_alone(start):
    """Its id may have been given to another since the heartbeat; another job's is another too, or it shares a group."""
    for arguments, alone, message in (
        (("something", "else"), True, "is not the application of words"),
        (("stream", "run", "flights"), True, "is not the application of words"),
        (("stream", "run", "words"), False, "shares the process group"),
    ):
        with pytest.raises(ServiceError, match=message):
            group_of(job_status(pid=start(*arguments, alone=alone)))


def test_a_stream_that_is_not_at_work_is_reported_with_what_to_do():
    """Before the demo, or after the stream has died."""
    for idle in (JobStatus("words", "never started"), job_status(state="dead"), job_status(at=NOW - 200, pid=1)):
        with pytest.raises(ServiceError, match="not running: run `make demo` first"):
            group_of(idle)


def test_without_servers_the_demo_is_asked_for_first(tmp_path):
    """By name of the first that does not run."""
    with pytest.raises(ServiceError, match="kafka is stopped: run `make demo` first"):
        check_running(Supervisor(tmp_path), ["kafka", "airflow"])
    with pytest.raises(ServiceError, match="lacks kafka"):
        check_running(Supervisor(tmp_path), ["airflow"])


def test_wiping_deletes_every_copy_and_nothing_else(tmp_path):
    """States of streams lie in the same folder."""
    for name in ("etl/clean/@3/part", "etl/load/@4-1_x/part", "streams/words/split/0/@1/run", ".streams/words/run"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("x")
    assert wipe_cache(LocalBackend(tmp_path)) == 3
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / ".streams/words/run"]


def test_losing_states_takes_the_folder_away_at_once(tmp_path):
    """Once more does no harm."""
    (tmp_path / "words" / "split").mkdir(parents=True)
    delete_folder(tmp_path / "words")
    delete_folder(tmp_path / "words")
    assert not list(tmp_path.iterdir())


class PersisterApi:
    """Airflow where a task of the persister goes from one state to the next each time that it is polled."""

    def __init__(self, *states):
        self.states = list(states)
        self.paused = []

    def pause(self, dag_id, paused):
        self.paused.append((dag_id, paused))

    def active_runs(self, dag_id):
        return {"run": "running"}

    def tasks(self, dag_id, run_id):
        return [TaskState(run_id, "", "persist", self.states.pop(0), 1)]


def test_the_persister_is_held_once_its_task_waits(monkeypatch):
    """What it is at is finished first."""
    api, polls = PersisterApi("queued", "running", "deferred"), []
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    pause_persister(api, lambda: polls.append(1))
    assert (api.paused, api.states, len(polls)) == ([("persister", True)], [], 3)


# ---- whether it is healed


def moment(path, event, at=NOW):
    """A change of state."""
    return StateChange(Ref(path, 1), at, event, Phase.COMMITTED, CacheState.PRESENT, UnderStoreState.NONE, "who", "why")


def test_a_cache_is_healed_when_the_loss_is_known_and_what_was_only_there_is_back():
    """Of all the rest there is a copy in the under-store."""
    exposed = [Ref("a", 1), Ref("b", 1)]
    assert not cache_recovery_since([], exposed).is_healed and not cache_recovery_since([], []).is_healed
    lost = [moment(path, "lost") for path in ("a", "b", "c")]
    half = cache_recovery_since([*lost, moment("a", "restored"), moment("c", "restored")], exposed)
    assert not half.is_healed
    assert half.summary() == "3 datasets lost: 1 are in the under-store, 1 of the other 2 are recomputed"
    assert cache_recovery_since([*lost, moment("a", "restored"), moment("b", "restored")], exposed).is_healed


def test_counts_are_right_when_each_word_is_reported_as_often_as_it_was_sent():
    """Missing words and doubled ones are distinguished; an older count of a word does not matter."""
    sent_counts = count_words([b"a b a\nc", b"b"])
    assert sent_counts == Counter(a=2, b=2, c=1)
    counts = newest_counts([b'{"word": "a", "count": 1}\n{"word": "c", "count": 1}', b'{"word": "a", "count": 2}'])
    assert format_difference(sent_counts, counts) == "2 word counts are missing, 0 are too high"
    assert format_difference(sent_counts, counts + Counter(b=3)) == "0 word counts are missing, 1 are too high"
    assert format_difference(sent_counts, counts + Counter(b=2)) == ""


def test_results_of_what_was_not_harmed_may_become_more_but_none_may_go_or_come_twice():
    """Windows close with the clock, also while a fault heals."""
    before = Counter([b"a 1", b"a 2"])
    assert format_harm(before, before + Counter([b"a 3"])) == ""
    assert format_harm(before, before + Counter([b"a 2"])) == "0 results missing, 1 duplicated"
    assert format_harm(before, Counter([b"a 1", b"a 3"])) == "1 result missing, 0 duplicated"


def test_the_table_of_recoveries_shows_how_long_each_took():
    """What was not harmed took no time."""
    items = [RecoveredItem("cache", "recomputed", 12.3), RecoveredItem("flights", "unaffected", 0.0)]
    output = printed(recovery_table(items))
    assert "12.3 s" in output and "unaffected" in output
