"""Rounds that fail again and again: the messages that they fail with are put aside, and the rounds go on."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.errors import LogUnavailableError, MessageIndependentError, RoundError
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.history import read_history, read_line
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.rounds import PoisonMessages, RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.state_folders import StateFolders
from springline.spark_jobs.streaming.runtime.step import Input, Output, State, Step, no_topic_reader
from springline.spark_jobs.streaming.runtime.worker import trial_process
from springline.spark_jobs.streaming.runtime.worker.attempt_counts import AttemptCounts
from springline.spark_jobs.streaming.runtime.worker.attempts import read_poison, record_poison
from springline.spark_jobs.streaming.runtime.worker.poison import TrialFailure, find_poison
from springline.spark_jobs.streaming.runtime.worker.trial_process import isolated_trials
from springline.spark_jobs.streaming.runtime.worker.unit import StageWorker
from springline.testing.memory_log import KilledError, MemoryLog
from tests.support.streams.next_task_loop import begin_next_task_loop

BAD, DEADLY = b"bad", b"deadly"
calls = [0]  # of the step
gets_over = [False]  # whether it gets over what is bad


def summing(state: State, step_input: Input) -> Output:
    """Adds up its messages, of which it does not get over some."""
    calls[0] += 1
    total = state.scalars.get("sum", 0)
    for message in step_input.messages:
        value = bytes(message.value)
        if value == DEADLY:
            os.kill(os.getpid(), signal.SIGKILL)
        if value == BAD and gets_over[0]:
            continue
        total += int(value)
    return Output(State({"sum": total}), counts={"rows": 1})


def make_summing() -> Step:
    """As a stage names it."""
    return summing


class Simulation:
    """A stage of one unit that reads all in one round, and attempts at it by workers without memory."""

    def __init__(self, folder: Path, *values: bytes, tries: int = 3, log: type[MemoryLog] = MemoryLog) -> None:
        self.stage = Stage(
            "sum", f"{__name__}:make_summing", "numbers", job="job", dead_letters="dead", max_attempts=tries
        )
        self.states = StateFolders(folder)
        self.log = log({"numbers": 1, "dead": 1, self.stage.rounds: 1, self.stage.reports: 1})
        for value in values:
            self.log.put("numbers", 0, value)
        self.planner = Planner(self.stage, self.log, lambda: 5.0, dict)
        plan = self.planner.after(self.planner.begin())
        assert plan is not None
        self.plan: RoundPlan = plan
        calls[0], gets_over[0] = 0, False

    def attempt(self) -> None:
        """Run the round in a new worker."""
        StageWorker(self.stage, self.states, self.log).run(self.plan, {}, 0)

    def fail(self, times: int, match: str = "numbers") -> None:
        """So many attempts that fail."""
        for _ in range(times):
            with pytest.raises(RoundError, match=match):
                self.attempt()

    @property
    def sum(self) -> int:
        """What the round came to."""
        return int(self.states.store(0).load(*self.plan.round_id).state.scalars["sum"])

    @property
    def dead_letters(self) -> list[tuple[bytes, int, str]]:
        """The dead letters: what came, its offset, why."""
        messages = self.log.topics["dead"][0]
        return [(bytes(m.value), int(m.headers["offset"]), m.headers["reason"].decode()) for m in messages]


def offset_of(simulation: Simulation, value: bytes) -> int:
    """Where a message is."""
    return next(m.offset for m in simulation.log.topics["numbers"][0] if bytes(m.value) == value)


# ---- which messages they are


@given(st.integers(1, 60), st.sets(st.integers(0, 59), max_size=8), st.none() | st.tuples(st.integers(0, 59)))
def test_exactly_the_messages_that_fail_are_found(many: int, bad: set[int], pair: tuple[int] | None) -> None:
    """Also one that fails only after another one."""
    bad = {number for number in bad if number < many}
    second = pair[0] if pair and 0 < pair[0] < many and not {0, pair[0]} & bad else None

    def trial(trial_messages: Sequence[Message]) -> TrialFailure | None:
        offsets = {message.offset for message in trial_messages}
        if second is not None and {0, second} <= offsets:
            return TrialFailure("both")
        return TrialFailure(f"bad {min(offsets & bad)}") if offsets & bad else None

    messages = [Message(number, b"") for number in range(many)]
    reasons = find_poison(messages, trial)
    expected = {number: f"bad {number}" for number in bad} | ({} if second is None else {second: "both"})
    assert reasons == {(0, offset): reason for offset, reason in expected.items()}


def test_one_among_a_thousand_is_found_in_some_twenty_trials() -> None:
    """By halves."""
    trial_sizes = []

    def trial(trial_messages: Sequence[Message]) -> TrialFailure | None:
        trial_sizes.append(len(trial_messages))
        return TrialFailure("bad") if any(message.offset == 777 for message in trial_messages) else None

    assert find_poison([Message(number, b"") for number in range(1_000)], trial) == {(0, 777): "bad"}
    assert len(trial_sizes) <= 25


# ---- what becomes of a round


def test_an_error_names_topic_unit_and_offsets(tmp_path: Path) -> None:
    """From the first attempt on."""
    simulation = Simulation(tmp_path, b"1", BAD)
    to = simulation.plan.ranges[0][1] - 1
    simulation.fail(1, rf"numbers\[0\], offsets 0 to {to}: ValueError: invalid literal for int\(\) .*bad")


def test_a_round_that_has_failed_three_times_goes_on_without_the_message_that_it_fails_with(tmp_path: Path) -> None:
    """Which is a dead letter, with its offset and the error; it is counted."""
    simulation = Simulation(tmp_path, b"1", b"2", BAD, b"4")
    simulation.fail(3)
    assert simulation.dead_letters == []
    simulation.attempt()
    assert simulation.sum == 7
    ((value, offset, reason),) = simulation.dead_letters
    assert (value, offset) == (BAD, offset_of(simulation, BAD))
    assert reason.startswith("round 1 fails on it: ValueError: invalid literal")
    notes = simulation.states.store(0).notes(*simulation.plan.round_id)
    assert notes is not None and notes["counts"] == {"poison_messages": 1, "dead_letters": 1, "rows": 1}


def test_a_replay_leaves_out_the_same_though_the_step_gets_over_it_by_then(tmp_path: Path) -> None:
    """What was decided is in the rounds log: who took what was sent would not fit to another state."""
    simulation = Simulation(tmp_path, b"1", BAD, b"4")
    simulation.fail(3)
    simulation.attempt()
    gets_over[0] = True
    shutil.rmtree(simulation.states.memory)
    begin_next_task_loop(simulation.stage, simulation.states, simulation.log)
    assert simulation.sum == 5
    plan = read_history(simulation.stage, simulation.log).last
    assert plan is not None and list(plan.poison) == [0]
    assert from_json_value(RoundPlan, to_json_value(plan), "here") == plan
    restarted_planner = Planner(simulation.stage, simulation.log, lambda: 9.0, dict)
    assert restarted_planner.after(restarted_planner.begin()) is not None
    assert len(simulation.dead_letters) == 1


@pytest.mark.parametrize("after", range(1, 12))
def test_whoever_goes_on_after_a_death_does_what_was_decided(tmp_path: Path, after: int) -> None:
    """At any call of the log: what was decided before is not decided again, and the dead letter is there once."""
    simulation = Simulation(tmp_path, b"1", BAD, b"4")
    simulation.fail(3)
    simulation.log.calls_until_death = after
    try:
        simulation.attempt()
    except KilledError:
        simulation.log.calls_until_death = None
        # Who has decided is dead, and the step gets over it now.
        gets_over[0] = any(
            isinstance(read_line(line), PoisonMessages) for line in simulation.log.topics[simulation.stage.rounds][0]
        )
        simulation.attempt()
    assert len(simulation.dead_letters) == 1 and simulation.sum == 5


def test_who_decides_later_does_what_was_decided_first(tmp_path: Path) -> None:
    """An attempt that was stopped for a while has found something else meanwhile."""
    simulation = Simulation(tmp_path, b"1", BAD, b"4")
    for reasons in ({2: "first"}, {0: "second"}):
        decided = record_poison(simulation.stage, simulation.log, simulation.plan.round_id, 0, {0: reasons})
        assert decided == {0: {2: "first"}}
    assert read_poison(simulation.stage, simulation.log, (1, 2), 0) is None


@pytest.mark.parametrize(
    ("values", "is_settled"),
    [((BAD, b"worse", BAD, b"worse", BAD), False), ((b"0x12 bad", b"0x99 bad", b"0x7 bad"), True)],
    ids=["different causes", "different numbers"],
)
def test_only_attempts_that_fail_alike_add_up(tmp_path: Path, values: Sequence[bytes], is_settled: bool) -> None:
    """Otherwise something around them is wrong; numbers in an error, such as sizes, make no other cause."""
    simulation = Simulation(tmp_path, b"1", values[0])
    for value in values:
        simulation.log.topics["numbers"][0][-1] = msgspec.structs.replace(
            simulation.log.topics["numbers"][0][-1], value=value
        )
        simulation.fail(1)
    assert simulation.dead_letters == []
    if is_settled:
        simulation.attempt()
        assert simulation.sum == 1


def test_a_log_that_does_not_answer_says_nothing_of_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often."""
    simulation = Simulation(tmp_path, b"1")

    def fetch(*_: object) -> None:
        raise LogUnavailableError("the broker is away")

    with monkeypatch.context() as patched:
        patched.setattr(simulation.log, "fetch", fetch)
        for _ in range(6):
            with pytest.raises(LogUnavailableError):
                simulation.attempt()
    simulation.attempt()
    assert simulation.sum == 1 and calls[0] == 7 and simulation.dead_letters == []


def test_a_round_that_fails_with_most_of_its_messages_stays_an_error(tmp_path: Path) -> None:
    """It is not they that are wrong: the error says how many, and with what."""
    simulation = Simulation(tmp_path, *[BAD] * 20, b"1")
    simulation.fail(3)
    for _ in range(2):
        expected = "on more than half of its 21 messages; at offset 0 of partition 0: ValueError"
        with pytest.raises(MessageIndependentError, match=expected):
            simulation.attempt()
    assert simulation.dead_letters == []


def test_a_few_messages_may_all_be_put_aside(tmp_path: Path) -> None:
    """One comes now and then, and each is bad: they are counted, and the stream goes on."""
    simulation = Simulation(tmp_path, BAD, BAD)
    simulation.fail(3)
    simulation.attempt()
    assert simulation.sum == 0 and len(simulation.dead_letters) == 2


def make_failing() -> Step:
    """Of a step that fails with whatever it is given."""
    return lambda state, step_input: 1 / 0  # type: ignore[return-value]


def test_a_round_that_fails_without_messages_too_stays_an_error(tmp_path: Path) -> None:
    """Nothing can be put aside for it."""
    simulation = Simulation(tmp_path, b"1")
    simulation.stage = replace(simulation.stage, step=f"{__name__}:make_failing")
    simulation.fail(3, "ZeroDivisionError")
    with pytest.raises(MessageIndependentError, match="it also fails without messages: ZeroDivisionError"):
        simulation.attempt()


@pytest.mark.parametrize("options", [{"max_attempts": 0}, {"dead_letters": ""}, {"reads_feedback": True}])
def test_where_nothing_is_put_aside_a_round_is_tried_for_ever(tmp_path: Path, options: dict[str, object]) -> None:
    """Because that is wanted, there is no place for it, or only this job writes there."""
    simulation = Simulation(tmp_path, b"1", BAD)
    simulation.stage = replace(simulation.stage, **options)  # type: ignore[arg-type]
    simulation.fail(6)


# ---- a step that takes its process with it


def attempt_in_a_worker(simulation: Simulation) -> int:
    """The signal that ended a worker in an attempt."""
    child = os.fork()
    if child == 0:
        simulation.attempt()
        os._exit(0)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


def test_a_message_that_kills_workers_is_put_aside_too(tmp_path: Path) -> None:
    """It is tried in processes of their own, after it has killed three."""
    simulation = Simulation(tmp_path, b"1", DEADLY, b"4", BAD)
    assert [attempt_in_a_worker(simulation) for _ in range(3)] == [signal.SIGKILL] * 3
    simulation.attempt()
    assert simulation.sum == 5
    assert {value: reason.partition(": ")[2] for value, _, reason in simulation.dead_letters} == {
        DEADLY: "its process died: SIGKILL",
        BAD: "ValueError: invalid literal for int() with base 10: b'bad'",
    }


def make_killing() -> Step:
    """Of a step that ends its process."""
    return lambda state, step_input: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[return-value]


def test_workers_that_were_killed_by_others_put_nothing_aside(tmp_path: Path) -> None:
    """The round works when it is tried."""
    simulation = Simulation(tmp_path, b"1", b"4")
    stage = simulation.stage
    simulation.stage = replace(stage, step=f"{__name__}:make_killing")
    assert [attempt_in_a_worker(simulation) for _ in range(3)] == [signal.SIGKILL] * 3
    simulation.stage = stage
    simulation.attempt()
    assert simulation.sum == 5 and simulation.dead_letters == []


def test_a_message_that_kills_the_worker_only_in_trials_is_put_aside_too(tmp_path: Path) -> None:
    """The round fails before it comes to it, so only the trials crash: they count as attempts do."""
    simulation = Simulation(tmp_path, b"1", BAD, DEADLY)
    simulation.fail(3)
    assert [attempt_in_a_worker(simulation) for _ in range(3)] == [signal.SIGKILL] * 3
    assert attempt_in_a_worker(simulation) == 0
    assert simulation.sum == 1


def test_what_fails_after_the_step_is_no_attempt(tmp_path: Path) -> None:
    """However often; and the crashes of a round are not forgotten when the one before begins again."""
    simulation = Simulation(tmp_path, b"1")
    folder, following = simulation.states.folder(0), (1, 2)
    AttemptCounts(following, crashes=2).write(folder)
    for _ in range(4):
        simulation.log.calls_until_death = 1  # the messages are read, nothing is sent
        with pytest.raises(KilledError):
            simulation.attempt()
        assert AttemptCounts.read(folder, simulation.plan.round_id).crashes == 0
    assert AttemptCounts.read(folder, following).crashes == 2


def test_a_round_that_has_never_failed_writes_no_counts(tmp_path: Path) -> None:
    """A round of a unit costs no file."""
    simulation = Simulation(tmp_path, b"1")
    simulation.attempt()
    assert not (simulation.states.folder(0) / "attempts.json").exists()


# ---- trials in processes of their own


class Client:
    """Like one of Kafka: a process that has not opened it dies when it collects it, and waits when it reads."""

    def __init__(self) -> None:
        self.owner, self.itself = os.getpid(), self

    def __del__(self) -> None:
        if os.getpid() != self.owner:
            os.kill(os.getpid(), signal.SIGSEGV)


class ClientLog(MemoryLog):
    """A log that only the process can read that has opened it."""

    owner = os.getpid()

    def fetch(self, *where: Any) -> Iterator[Message]:
        if os.getpid() != self.owner:
            signal.pause()
        return super().fetch(*where)


def make_reading_and_collecting() -> Step:
    """Of a step that reads another topic, and collects garbage."""

    def step(state: State, step_input: Input) -> Output:
        gc.collect()
        assert [bytes(message.value) for message in step_input.read_topic("others", 0, 0, 1)] == [b"other"]
        return summing(state, step_input)

    return step


def test_good_messages_are_not_blamed_for_the_clients_of_a_worker(tmp_path: Path) -> None:
    """Trials have none of them, and the worker reads for them."""
    simulation = Simulation(tmp_path, b"1", DEADLY, b"4", log=ClientLog)
    simulation.log.topics["others"] = [[Message(0, b"other")]]
    simulation.stage = replace(simulation.stage, step=f"{__name__}:make_reading_and_collecting")
    AttemptCounts(simulation.plan.round_id, crashes=3).write(simulation.states.folder(0))
    Client()
    simulation.attempt()
    assert simulation.sum == 5
    assert [(value, reason) for value, _, reason in simulation.dead_letters] == [
        (DEADLY, "round 1 fails on it: its process died: SIGKILL")
    ]


def make_trial(_: object, once: Path, end_process: Callable[[int, signal.Signals], None]) -> Callable[..., str | None]:
    """Trials whose messages say what happens; the file `once` exists after the first death of `flaky`."""

    def trial(some: Sequence[Message]) -> str | None:
        values = [bytes(message.value) for message in some]
        if b"deadly" in values or values.count(b"large") > 1 or (b"flaky" in values and not once.exists()):
            once.touch()
            end_process(os.getpid(), signal.SIGKILL)
        if b"endless" in values:
            signal.pause()
        if b"impossible" in values:
            raise ZeroDivisionError("no trial")
        return "bad" if BAD in values else None

    return trial


def test_only_what_ends_its_process_alone_and_each_time_is_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What died once, or only with others, may have lacked memory or time."""
    monkeypatch.setattr(trial_process, "_TRIAL_SECONDS", 3.0)
    monkeypatch.setattr(trial_process, "_SUSPECT_SECONDS", 3.5)
    monkeypatch.setattr(trial_process, "_SUSPECT_TRIALS", 1)
    values = (b"1", b"flaky", BAD, DEADLY, b"endless", b"large", b"large", b"impossible")
    messages = [Message(number, value) for number, value in enumerate(values)]
    with isolated_trials(make_trial, (tmp_path / "once", os.kill), messages, no_topic_reader) as trial:
        assert find_poison(messages[:3], trial) == {(0, 2): "bad"}
        assert find_poison([messages[0], messages[3]], trial) == {(0, 3): "its process died: SIGKILL"}
        assert find_poison([messages[4]], trial) == {(0, 4): "it did not end within 3 s"}
        for some, error in ((messages[5:7], "but not 2 together: .*SIGKILL; give the workers more memory"),
                            (messages[7:], "could not be tried: ZeroDivisionError: no trial")):  # fmt: skip
            with pytest.raises(MessageIndependentError, match=error):
                find_poison(some, trial)


def test_trials_that_cannot_begin_say_why() -> None:
    """And blame nothing."""
    refused = pytest.raises(MessageIndependentError, match="TypeError: make_trial")
    with refused, isolated_trials(make_trial, (), [], no_topic_reader):
        pass


# ---- what is too large to be sent


def make_copying() -> Step:
    """Of a step that fails with what begins with `bad`, and passes others on or emits them, as the message says."""

    def step(state: State, step_input: Input) -> Output:
        values = [bytes(message.value) for message in step_input.messages]
        if any(value.startswith(BAD) for value in values):
            raise ValueError("it is bad" + "!" * (20 << 20))
        texts = {way: [value.decode() for value in values if value[:4] == way] for way in (b"pass", b"emit")}
        passed, emitted = (pa.record_batch({"text": pa.array(each, pa.string())}) for each in texts.values())
        return Output(State({"sum": len(values)}), {0: [passed]}, [emitted] if emitted else [])

    return step


def test_what_is_too_large_to_be_sent_is_a_dead_letter_that_is_cut(tmp_path: Path) -> None:
    """A message of a size that only its own topic takes, what is made of one for the next stage, and a result."""
    most = 16 << 20
    large = {BAD: b"x", b"pass": b"x", b"emit": b"\x01"}  # a byte 1 takes six bytes in JSON
    values = [start.ljust(most - 100 if start == BAD else most // 5 if start == b"emit" else most - 200, filling)
              for start, filling in large.items()]  # fmt: skip
    simulation = Simulation(tmp_path, b"pass on", values[0], b"emit this", *values[1:])
    simulation.log.topics |= {"next": [[]], "results": [[]]}
    simulation.stage = replace(
        simulation.stage, step=f"{__name__}:make_copying", downstream="next", outlets={"next": 1}, results="results"
    )
    simulation.fail(3)
    simulation.attempt()
    assert simulation.sum == 3
    bad, passed, emitted = simulation.log.topics["dead"][0]
    headers = [each.headers for each in (bad, passed, emitted)]
    assert [each["content"] for each in headers[:2]] == [b"cut from %d bytes" % len(each) for each in values[:2]]
    assert headers[2]["content"].startswith(b"cut from ")
    for letter, value in zip((bad, passed), values, strict=False):
        assert most - 2_000 < len(letter.value) < most and value.startswith(bytes(letter.value))
        assert int(letter.headers["offset"]) == offset_of(simulation, value)
    assert bytes(emitted.value).startswith(b'{"text":"emit\\u0001')
    reasons = [each["reason"].decode() for each in headers]
    starts = ("round 1 fails on it: ValueError", "round 1 fails on it: RecordRef", "a result of 20,1")
    for reason, start in zip(reasons, starts, strict=True):
        assert reason.startswith(start) and len(reason) <= 1_000
    assert "next[0]: a record of 16,777" in reasons[1]
    rows = [bytes(each.value) for each in simulation.log.topics["results"][0]]
    assert rows == [b'{"text":"emit this"}\n']
