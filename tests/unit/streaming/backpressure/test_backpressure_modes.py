"""What each mode decides on what it sees."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from springline.baselines.backpressure import StepwiseLiteral
from springline.spark_jobs.streaming.backpressure.admission import (
    DEFAULT_MODE,
    MINIMUM_RATE,
    MODES,
    Admission,
    AdmissionDecision,
    StageObservation,
    TokenBucket,
    forward_upstreams,
    make_admission,
)
from springline.spark_jobs.streaming.backpressure.predictive import PredictiveAdmission, Tuning, smoothed_capacity
from springline.spark_jobs.streaming.backpressure.signals import LEASE_SECONDS, Signal
from springline.spark_jobs.streaming.backpressure.stage_meter import StageMeasurement
from springline.spark_jobs.streaming.backpressure.stepwise import (
    LEVELS_PER_STEP,
    StepwiseAdmission,
    Thresholds,
    UpstreamThrottle,
    next_throttle,
)

MARKS = Thresholds(high=100.0, low=10.0, sensitivity=2.0, ratio=0.5, patience=0.5)
ORIGINAL = 1e6
FAILED_AT_8 = UpstreamThrottle(
    throttle_level=9, step=1, is_down=False, failed_throttle_level=8, failed_rate=1e6, hold_seconds=60.0,
    changed_at=0.0, underloaded_since=0.0,
)  # fmt: skip
SHORT = Tuning(buffer=0.0)  # a stage of 1 MB/s would have no more than its buffer


def measured(
    at: float, queue: float, *, rate: float = 1e6, inflow: float = 1e6, amplification: float = 1.0
) -> StageMeasurement:
    """A stage with one upstream and one downstream, whose queue stands."""
    return StageMeasurement(
        at, queue, queue, queue, queue, rate, {"up": inflow}, outflow=ORIGINAL, amplification={"down": amplification}
    )


def decide_at(admission: Admission, at: float, queue: float, *signals: Signal, **more: float) -> AdmissionDecision:
    """One look."""
    return admission.decide(StageObservation(measured(at, queue, **more), ORIGINAL, ("up",), signals))


def signal_from(
    sequence: int, at: float, *, downstream: str = "down", level: int = 0, rate: float | None = None
) -> Signal:
    """A signal to the stage."""
    return Signal(downstream, "stage", sequence, at + LEASE_SECONDS, level, rate)


# ---- what modes have in common


def test_the_default_is_predictive() -> None:
    """And each mode has its admission; the baseline is the last, and is named as one."""
    assert DEFAULT_MODE == "predictive"
    assert MODES.format_names() == "off, predictive, stepwise; baselines, for comparison: stepwise-literal"
    assert len({type(make_admission(mode, "stage")) for mode in MODES.names}) == len(MODES.names)


def test_feedback_edges_are_left_out() -> None:
    """The acker sends to the spring, and a stage to itself; neither is throttled for it."""
    sends = {"spring": ["split", "acker"], "split": ["count", "acker", "split"], "acker": ["spring"]}
    assert forward_upstreams(["spring", "split", "count", "acker"], sends) == {
        "spring": (), "split": ("spring",), "count": ("split",), "acker": ("spring", "split"),
    }  # fmt: skip


def test_an_allowance_is_kept_for_a_moment_and_what_was_too_much_is_owed() -> None:
    """Bytes of rounds from a rate."""
    allowance = TokenBucket(burst=0.5)
    assert allowance.available_bytes(100.0, 0.0) == 0
    assert allowance.available_bytes(100.0, 0.2) == pytest.approx(20)
    allowance.spend(50)
    assert allowance.available_bytes(100.0, 0.3) == 0
    assert allowance.available_bytes(100.0, 0.6) == pytest.approx(10)
    assert allowance.available_bytes(100.0, 9.0) == 50


# ---- stepwise


def throttles_of(
    queues: list[tuple[float, float]], pair: UpstreamThrottle | None = None, rate: float = 1e6
) -> list[UpstreamThrottle]:
    """A pair after each look at (time, queue)."""
    throttles, pair = [], pair or UpstreamThrottle()
    for at, queue in queues:
        pair = next_throttle(pair, measured(at, queue, rate=rate), MARKS)
        throttles.append(pair)
    return throttles


@pytest.mark.parametrize(
    ("queues", "levels"),
    [
        pytest.param([(0, 100), (0.1, 100), (0.5, 200), (1.0, 300)], [16, 16, 32, 48], id="an overload goes on"),
        pytest.param([(0, 300), (0.5, 250), (1.0, 200)], [16] * 3, id="the queue shrinks above the high mark"),
        pytest.param([(0, 100), (5, 10), (6, 50), (7, 10), (8.9, 10), (9, 10)], [*[16] * 5, 8], id="between the marks"),
        pytest.param([(0, 100), (1, 0), (3, 0), (3.5, 100), (4, 0), (6, 0)], [16, 16, 8, 12, 12, 10], id="reversals"),
    ],
)
def test_the_level_follows_the_queue(queues: list[tuple[float, float]], levels: list[int]) -> None:
    """By a step each half second of overload, none where the queue shrinks, and half a step at each reversal."""
    assert [pair.throttle_level for pair in throttles_of(queues)] == levels


def test_a_level_that_overloaded_is_tried_again_after_a_time_that_doubles() -> None:
    """One level above it is as far as is known to be well; twice 2 s, then twice that."""
    pair = replace(FAILED_AT_8, hold_seconds=4.0)
    assert [each.throttle_level for each in throttles_of([(2.5, 0), (3.9, 0), (4.0, 0)], pair)] == [9, 9, 8]
    failed = throttles_of([(4.0, 0), (4.5, 100)], pair)[-1]
    assert (failed.throttle_level, failed.failed_throttle_level, failed.hold_seconds) == (9, 8, 8.0)


def test_what_was_learnt_is_void_once_the_stage_is_quicker() -> None:
    """By a tenth, for five seconds; a burst is not enough."""
    assert throttles_of([(2.5, 0), (7.5, 0)], FAILED_AT_8, rate=1.05e6)[-1].failed_throttle_level == 8
    throttles = throttles_of([(2.5, 0), (7.4, 0), (7.5, 0)], FAILED_AT_8, rate=1.2e6)
    assert [each.throttle_level for each in throttles] == [9, 9, 8]
    burst = throttles_of([(2.5, 0)], FAILED_AT_8, rate=1.2e6)[-1]
    calm = throttles_of([(2.6, 0)], burst, rate=1e6)[-1]
    assert throttles_of([(7.5, 0)], calm, rate=1.2e6)[-1].failed_throttle_level == 8


def test_a_stage_that_may_admit_more_again_is_quicker() -> None:
    """What it could do has not changed; what was learnt while it was throttled is void."""
    pair = replace(FAILED_AT_8, same_direction_steps=1, failed_rate=ORIGINAL / 2)
    state = {"pairs": {"up": asdict(pair)}}
    stage = StepwiseAdmission("stage", state, MARKS)
    decide_at(stage, 0.5, 0, signal_from(1, 0.5, level=LEVELS_PER_STEP), rate=ORIGINAL)
    assert stage.as_json()["pairs"]["up"]["failed_throttle_level"] == 8
    decide_at(stage, 0.6, 0, signal_from(2, 0.6), rate=ORIGINAL)
    decide_at(stage, 5.6, 0, signal_from(3, 5.6), rate=ORIGINAL)
    assert stage.as_json()["pairs"]["up"]["failed_throttle_level"] is None


def test_the_lowest_wins_and_the_release_of_one_does_not_free_the_others() -> None:
    """Two downstreams of one upstream."""
    stage = StepwiseAdmission("stage", thresholds=MARKS)
    other = signal_from(1, 0.0, downstream="other", level=2 * LEVELS_PER_STEP)
    first = decide_at(stage, 0.0, 0, signal_from(1, 0.0, level=LEVELS_PER_STEP), other)
    assert first.rate == pytest.approx(ORIGINAL / 4)
    decision = decide_at(stage, 0.1, 0, signal_from(2, 0.1, downstream="other"))
    assert decision.rate == pytest.approx(ORIGINAL / 2)
    assert [each.downstream for each in decision.throttled_by] == ["down"]
    assert decide_at(stage, 0.2, 0, signal_from(2, 0.2)).rate is None


def test_a_downstream_that_died_lets_go_by_its_lease() -> None:
    """A step a second, to the original."""
    stage = StepwiseAdmission("stage", thresholds=MARKS)
    decide_at(stage, 0.0, 0, signal_from(1, 0.0, level=3 * LEVELS_PER_STEP))
    rates = [decide_at(stage, LEASE_SECONDS + after, 0).rate for after in (0.0, 0.1, 1.1, 2.1)]
    assert rates == [ORIGINAL / 8, ORIGINAL / 4, ORIGINAL / 2, None]


def test_the_literal_form_takes_one_step_and_one_release_frees_all() -> None:
    """Which is why there is another one."""
    stage = StepwiseLiteral("stage", marks=MARKS)
    signals = [Signal(name, "stage", 1, None, 1) for name in ("down", "other")]
    assert decide_at(stage, 0.0, 0, *signals).rate == ORIGINAL / 2
    assert decide_at(stage, 1e6, 0).rate == ORIGINAL / 2
    assert decide_at(stage, 1e6, 0, Signal("other", "stage", 2, None, 0)).rate is None


def test_the_literal_form_checks_once_in_its_sensitivity() -> None:
    """An overload in between is not seen; an underload has to last."""
    stage = StepwiseLiteral("stage", marks=MARKS)
    levels = [[each.throttle_level for each in decide_at(stage, at, queue).signals]
            for at, queue in ((0, 0), (1, 500), (2, 500), (4, 500), (6, 0), (8, 0))]  # fmt: skip
    assert levels == [[], [], [1], [], [], [0]]


# ---- predictive


def test_the_rate_of_the_downstream_is_fed_forward() -> None:
    """At the first look at which more comes than the stage can do and its queue is longer than wanted."""
    stage = PredictiveAdmission("stage", tuning=SHORT)
    assert decide_at(stage, 0.0, 0.19e6, rate=1e6, inflow=0.9e6).signals == ()
    (signal,) = decide_at(stage, 0.05, 0.1e6, rate=0.4e6, inflow=0.9e6).signals
    assert signal.rate == pytest.approx(0.4e6, rel=0.2)


def test_what_is_asked_for_is_divided_by_the_amplification() -> None:
    """Of the stage, for that downstream."""
    stage = PredictiveAdmission("stage", tuning=SHORT)
    assert decide_at(stage, 0.0, 0, signal_from(1, 0.0, rate=1e6), amplification=4.0).rate == pytest.approx(250e3)


def test_a_stage_that_is_throttled_hands_it_on() -> None:
    """It asks its upstream for what it may admit, not for what it could do."""
    stage = PredictiveAdmission("stage", tuning=SHORT)
    (signal,) = decide_at(stage, 0.0, 0.2e6, signal_from(1, 0.0, rate=0.3e6), rate=1e6, inflow=0.9e6).signals
    assert signal.rate is not None
    assert signal.rate <= 0.4e6


def test_a_longer_queue_asks_for_less_and_a_shorter_one_for_more() -> None:
    """Within bounds."""
    rates = []
    for queue in (0.3e6, 0.6e6, 100e6):
        (signal,) = decide_at(PredictiveAdmission("stage", tuning=SHORT), 0.0, queue, rate=0.5e6).signals
        rates.append(signal.rate)
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == pytest.approx(0.1e6)


def test_before_a_stage_of_which_nothing_is_known_only_so_much_may_wait() -> None:
    """Then nothing more comes, until it is less."""
    stage = PredictiveAdmission("stage", tuning=SHORT)

    def requested_rates(at: float, queue: float) -> list[float | None]:
        unknown = StageMeasurement(at, queue, queue, queue, queue, None, {"up": 1e9})
        return [signal.rate for signal in stage.decide(StageObservation(unknown, ORIGINAL, ("up",))).signals]

    rates = [requested_rates(at, queue) for at, queue in ((0.0, 7e6), (0.1, 9e6), (0.2, 7e6))]
    assert rates == [[], [MINIMUM_RATE], [None]]


def test_two_upstreams_share_in_proportion_to_what_they_send() -> None:
    """And one that sends nothing keeps a part."""
    stage = PredictiveAdmission("stage", tuning=SHORT)
    flows = {"a": 3e6, "b": 1e6, "c": 0.0}
    observation = StageObservation(StageMeasurement(0.0, 9e6, 9e6, 9e6, 9e6, 1e6, flows), ORIGINAL, ("a", "b", "c"))
    rates = {signal.upstream: signal.rate or 0.0 for signal in stage.decide(observation).signals}
    assert rates["a"] == pytest.approx(3 * rates["b"])
    assert rates["c"] > MINIMUM_RATE


def test_a_rate_recovers_by_its_lease() -> None:
    """It doubles every second."""
    stage = PredictiveAdmission("stage", tuning=SHORT)
    decide_at(stage, 0.0, 0, signal_from(1, 0.0, rate=100e3))
    rates = [decide_at(stage, LEASE_SECONDS + after, 0).rate for after in (0.0, 1.0, 3.0, 3.5)]
    assert rates == pytest.approx([100e3, 200e3, 800e3, None])


def test_a_wider_buffer_lets_more_wait() -> None:
    """Nothing is asked until it is full."""
    wide = PredictiveAdmission("stage", tuning=Tuning(buffer=10e6))
    assert decide_at(wide, 0.0, 9e6, rate=0.1e6).signals == ()
    assert decide_at(wide, 0.1, 11e6, rate=0.1e6).signals


@pytest.mark.parametrize("rate", [0.09e6, 0.5e6, 5e6])
def test_an_upstream_that_sends_nothing_more_is_freed_however_slow_the_stage(rate: float) -> None:
    """Also where the buffer that is wanted comes to many seconds of its work."""
    stage = PredictiveAdmission("stage", tuning=Tuning(buffer=1e6))
    assert decide_at(stage, 0.0, 9e6, rate=rate).throttles
    decisions = [decide_at(stage, 0.1 * tick, 0.0, rate=rate, inflow=0.0) for tick in range(1, 120)]
    assert not decisions[-1].throttles
    assert any(signal.is_release for decision in decisions for signal in decision.signals)


def test_a_small_change_of_a_capacity_is_believed_slowly() -> None:
    """A great one at once."""
    assert smoothed_capacity(100.0, 50.0, 0.05) == 50.0
    assert 100 < smoothed_capacity(100.0, 105.0, 0.05) < 101


@pytest.mark.parametrize("mode", MODES.names)
def test_a_controller_that_died_is_followed_by_one_that_goes_on(mode: str) -> None:
    """From its state as JSON: both decide the same from there on."""
    first = make_admission(mode, "stage")
    for tick in range(30):
        decide_at(first, tick * 0.1, 3e6, *([signal_from(1, 0.0, level=3, rate=2e5)] if not tick else []), rate=1e6)
    second = make_admission(mode, "stage", json.loads(json.dumps(first.as_json())))
    for tick in range(30, 60):
        assert decide_at(first, tick * 0.1, 3e6, rate=1e6) == decide_at(second, tick * 0.1, 3e6, rate=1e6)
