"""Queues, true rates and amplification, measured from counts."""

from __future__ import annotations

import pytest

from springline.spark_jobs.streaming.backpressure.stage_meter import (
    IN_PROPORTION,
    StageCounts,
    StageMeasurement,
    StageMeter,
)


def counted(
    at: float, sent: float, applied: float, busy: float, *, admitted: float | None = None, **more: object
) -> StageCounts:
    """Counts of a stage with one upstream."""
    admitted_bytes = int(applied) if admitted is None else int(admitted)
    return StageCounts(at, {"up": int(sent)}, admitted_bytes, int(applied), busy, **more)  # type: ignore[arg-type]


def rounds(meter: StageMeter, rates: list[float], *, share: float = 1.0) -> StageMeasurement:
    """Rounds of a tenth of a second at work each, of so many bytes a second, with pauses if `share` is less than 1."""
    applied = busy = 0.0
    measured = meter.measure(counted(0.0, 0, 0, 0))
    for number, rate in enumerate(rates, 1):
        applied, busy = applied + rate * 0.1, busy + 0.1
        measured = meter.measure(counted(number * 0.1 / share, applied, applied, busy))
    return measured


def test_a_queue_is_what_was_sent_and_not_applied() -> None:
    """What a round has admitted waits no longer, but is still in the queue; the units' queues are passed on."""
    measured = StageMeter().measure(counted(1.0, 1000, 300, 1.0, admitted=800, unit_queues={0: 600, 1: 100}))
    assert (measured.queue, measured.waiting, measured.unit_queues) == (700, 200, {0: 600, 1: 100})


def test_a_stall_says_nothing_of_the_rate_once_it_is_over() -> None:
    """The rate falls while a round stands still; the first round after it shows that the stage is as fast as before."""
    meter = StageMeter()
    rounds(meter, [20e6] * 6)
    assert meter.measure(counted(1.6, 14e6, 12e6, 0.6, admitted=14e6, round_started_at=0.6)).rate == 2e6
    assert meter.measure(counted(10.6, 20e6, 14e6, 10.6)).rate == pytest.approx(200e3)
    assert meter.measure(counted(10.7, 20e6, 16e6, 10.7)).rate == pytest.approx(20e6)


def test_a_queue_in_seconds_needs_a_rate() -> None:
    """It is unknown before the first round."""
    meter = StageMeter()
    assert meter.measure(counted(0.0, 1000, 0, 0.0)).queue_seconds is None
    meter.measure(counted(0.5, 1000, 0, 0.0))
    assert meter.measure(counted(1.0, 1000, 500, 0.5)).queue_seconds == pytest.approx(0.5)


def test_a_starved_stage_is_not_thought_to_be_slow() -> None:
    """The rate is computed from the time at work; what passes is reported separately."""
    measured = rounds(StageMeter(), [1e6] * 20, share=0.1)
    assert measured.rate == pytest.approx(1e6)
    assert measured.outflow == pytest.approx(1e5, rel=0.1)


def test_one_slow_round_does_not_change_the_rate_and_several_do() -> None:
    """The percentile is of time at work, over half a second of it."""
    assert rounds(StageMeter(), [1e6] * 10 + [1e5]).rate == pytest.approx(1e6)
    assert rounds(StageMeter(), [1e6] * 10 + [1e5] * 3).rate == pytest.approx(1e5)
    assert rounds(StageMeter(), [1e5] * 10 + [1e6] * 4).rate == pytest.approx(1e6)


def test_a_round_that_does_not_end_bounds_the_rate() -> None:
    """A stage that stands still has no round that would report it."""
    meter = StageMeter()
    last = rounds(meter, [1e6] * 10)
    rates = [
        meter.measure(counted(at, 3e6, 1e6, 1.0, admitted=1.1e6, round_started_at=1.0)).rate
        for at in (last.observed_at + 0.1, last.observed_at + 1.0)
    ]
    assert rates == pytest.approx([1e6, 1e5])


def test_short_rounds_do_not_lower_the_rate() -> None:
    """They take what every round takes, however little is in them."""
    meter = StageMeter()
    last = rounds(meter, [1e6] * 10)
    for number in range(1, 30):
        measured = meter.measure(
            counted(last.observed_at + number / 10, 1e6 + number, 1e6 + number, 1.0 + number * 0.005)
        )
    assert measured.rate == pytest.approx(1e6)


def test_what_a_round_takes_whatever_its_size_is_not_taken_for_slowness() -> None:
    """A stage of 20 MB/s whose rounds take 10 ms more gets little: what it would do in a full round is reported."""
    meter, applied, busy = StageMeter(), 0.0, 0.0
    for number, size in enumerate([20e3, 200e3, 400e3, 400e3]):
        measured = meter.measure(counted(number * 0.1, applied, applied, busy))
        applied, busy = applied + size, busy + 0.01 + size / 20e6
    measured = meter.measure(counted(0.4, applied, applied, busy))
    assert measured.rate == pytest.approx(20e6 * 0.09 / 0.1, rel=0.01)


def test_the_standing_queue_is_free_of_the_saw_of_rounds() -> None:
    """A queue that was empty a moment ago does not stand."""
    meter = StageMeter()
    for at, sent in ((0.0, 0), (0.05, 900), (0.1, 900)):
        measured = meter.measure(counted(at, sent, 0, 0.0))
    assert (measured.standing, measured.mean) == (0, pytest.approx(675))
    for at in (0.2, 0.4):
        measured = meter.measure(counted(at, 900, 0, 0.0))
    assert measured.standing == 900


def test_amplification_is_the_95th_percentile_over_rounds() -> None:
    """By stage downstream; what one round in ten makes more counts, what one in a hundred makes does not."""
    meter = StageMeter()
    produced_bytes = 0.0
    for number in range(61):
        produced_bytes += 500 if number % 10 == 0 else 100
        measured = meter.measure(
            counted(number * 0.1, number * 100, number * 100, number * 0.1, produced={"down": int(produced_bytes)})
        )
    assert measured.amplification == {"down": pytest.approx(5.0)}


def sends(meter: StageMeter, sizes: list[float], fixed: float, slope: float, *, at_once: int = 1) -> StageMeasurement:
    """Rounds of such sizes, each of which sends `fixed` bytes and `slope` for each byte; so many between two looks."""
    applied = produced = 0.0
    measured = meter.measure(counted(0.0, 0, 0, 0, produced={"down": 0}))
    for number, size in enumerate(sizes, 1):
        applied, produced = applied + size, produced + fixed + slope * size
        if number % at_once == 0:
            many = {"down": int(produced)}
            measured = meter.measure(
                counted(number * 0.1, applied, applied, number * 0.1, produced=many, applied_round=number)
            )
    return measured


@pytest.mark.parametrize("at_once", [1, 3])
def test_what_a_round_sends_whatever_it_reads_shows_in_rounds_of_different_sizes(at_once: int) -> None:
    """As of a stage that aggregates: half as large a round sends more than half."""
    sizes = [1e6 * (1 + number // at_once % 4) for number in range(60)]
    measured = sends(StageMeter(), sizes, fixed=3e6, slope=0.5, at_once=at_once)
    for size in (1e5, 1e6, 8e6):
        sent = measured.round_cost.of(size) * measured.amplification_to("down")
        assert sent == pytest.approx(3e6 + 0.5 * size, rel=0.01)


def test_of_a_stage_that_sends_in_proportion_a_round_costs_what_it_reads() -> None:
    """A small fixed part, as of headers, is left out: it says nothing about rounds."""
    sizes = [1e6 * (1 + number % 4) for number in range(60)]
    assert sends(StageMeter(), sizes, fixed=0.0, slope=2.0).round_cost == IN_PROPORTION
    assert sends(StageMeter(), sizes, fixed=1e5, slope=2.0).round_cost == IN_PROPORTION


def test_rounds_of_one_size_say_nothing_about_what_is_fixed() -> None:
    """What was known before them holds."""
    sizes = [1e6 * (1 + number % 4) for number in range(60)]
    measured = sends(StageMeter(), [*sizes, *[2.5e6] * 200], fixed=3e6, slope=0.5)
    assert measured.round_cost.of(2.5e6) == pytest.approx(2.5e6)
    assert measured.round_cost.of(0) == pytest.approx(2.5e6 * 3e6 / 4.25e6, rel=0.01)
    assert sends(StageMeter(), [2.5e6] * 100, fixed=3e6, slope=0.5).round_cost == IN_PROPORTION


def test_inflow_is_computed_from_upstream() -> None:
    """Over the last second."""
    meter = StageMeter()
    for at in range(3):
        measured = meter.measure(StageCounts(at, {"a": at * 100, "b": at * 300}, 0, 0, 0.0))
    assert measured.inflow == {"a": 100, "b": 300}
    assert measured.arrival_rate == 400


def test_counts_that_went_back_start_over() -> None:
    """A job that was rewound counts from an earlier state."""
    meter = StageMeter()
    rounds(meter, [1e6] * 10)
    measured = meter.measure(counted(2.0, 100, 100, 0.1))
    assert measured.inflow == {"up": 0.0}
    assert measured.rate == pytest.approx(1e6)
