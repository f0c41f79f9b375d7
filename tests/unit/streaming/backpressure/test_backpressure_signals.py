"""Signals: which are sent when, and which are obeyed, whatever becomes of them on the way."""

from __future__ import annotations

import itertools
import json

import pytest

from springline.spark_jobs.streaming.backpressure.signals import (
    LEASE_SECONDS,
    LONGEST_LEASE,
    RENEW_SECONDS,
    Demand,
    InvalidSignalError,
    Signal,
    SignalReceiver,
    SignalSender,
    newest_by_pair,
)


def signal(sequence: int = 1, until: float | None = 10.0, *, downstream: str = "down", level: int = 1) -> Signal:
    """A signal for `up`."""
    return Signal(downstream, "up", sequence, until, level)


def levels(received: SignalReceiver) -> dict[str, int]:
    """What is obeyed, by stage downstream."""
    return {held.signal.downstream: held.signal.throttle_level for held in received.active_signals()}


def test_a_signal_is_read_as_it_was_written() -> None:
    """With and without a lease."""
    for each in (signal(), signal(until=None), Signal("d", "u", 3, 1.5, 0, 2e6, "why")):
        assert Signal.decode(each.encode()) == each


@pytest.mark.parametrize(
    "content", [b"", b"no", b"{}", b"[1]", b'{"downstream":"d","upstream":"u","sequence":"x","until":1}']
)
def test_what_is_no_signal_is_refused(content: bytes) -> None:
    """It never reaches whoever would obey it."""
    with pytest.raises(InvalidSignalError, match="not a signal"):
        Signal.decode(content)


def test_doubled_and_overtaken_signals_change_nothing() -> None:
    """The greatest sequence of a pair counts."""
    received = SignalReceiver()
    received.accept([signal(2, level=5), signal(1, level=1), signal(2, level=5)], 0.0)
    assert levels(received) == {"down": 5}
    assert newest_by_pair([signal(2, level=5), signal(1, level=1)]) == {("down", "up"): signal(2, level=5)}


def test_a_late_signal_is_not_obeyed() -> None:
    """Its lease is over."""
    received = SignalReceiver()
    received.accept([signal(1, until=3.0)], 3.0)
    assert levels(received) == {}


def test_a_throttle_that_was_overtaken_by_its_release_does_not_come_back() -> None:
    """A release is kept for its lease."""
    received = SignalReceiver()
    received.accept([signal(2, level=0)], 0.0)
    received.accept([signal(1, level=4)], 1.0)
    assert levels(received) == {"down": 0}


def test_a_clock_that_is_fast_does_not_bind_for_ever() -> None:
    """A lease ends at the latest so long after the signal came."""
    received = SignalReceiver()
    received.accept([signal(1, until=1e12), signal(1, until=None, downstream="other")], 5.0)
    assert [held.ends for held in received.active_signals()] == [5.0 + LONGEST_LEASE] * 2


def test_since_when_is_kept_while_a_pair_is_throttled() -> None:
    """From the first signal, not from the newest."""
    received = SignalReceiver()
    received.accept([signal(1, level=1)], 1.0)
    received.accept([signal(2, level=2)], 2.0)
    assert received.active_signals()[0].since == 1.0
    received.accept([signal(3, level=0)], 3.0)
    received.accept([signal(4, level=2)], 4.0)
    assert received.active_signals()[0].since == 4.0


def test_what_is_obeyed_outlives_a_restart() -> None:
    """As JSON."""
    received = SignalReceiver()
    received.accept([signal(7, level=3)], 1.0)
    again = SignalReceiver(json.loads(json.dumps(received.as_json())))
    assert again.active_signals() == received.active_signals()


def test_nothing_is_sent_where_nothing_is_asked() -> None:
    """Not even that nothing is."""
    assert SignalSender("down").signals_to_send({"up": Demand()}, 0.0) == ()


def test_the_same_is_asked_again_before_its_lease_ends() -> None:
    """Each time with a greater sequence."""
    asking = SignalSender("down")
    sent = [
        each
        for tick in range(80)
        for each in asking.signals_to_send({"up": Demand(throttle_level=2)}, 100 + tick * 0.05)
    ]
    gaps = [after.until - before.until for before, after in itertools.pairwise(sent)]  # type: ignore[operator]
    assert max(gaps) <= RENEW_SECONDS + 0.06 < LEASE_SECONDS / 2
    assert all(after.sequence > before.sequence for before, after in itertools.pairwise(sent))


def test_a_change_is_asked_at_once_and_a_small_one_of_a_rate_is_not() -> None:
    """From 2 % on."""
    asking = SignalSender("down")
    assert asking.signals_to_send({"up": Demand(rate=100.0)}, 0.0)
    assert not asking.signals_to_send({"up": Demand(rate=101.9)}, 0.01)
    assert asking.signals_to_send({"up": Demand(rate=102.1)}, 0.02)
    assert asking.signals_to_send({"up": Demand()}, 0.03)[0].is_release
    assert not asking.signals_to_send({"up": Demand()}, 0.04)
    assert asking.active_signals() == []


def test_sequences_ascend_also_without_a_state() -> None:
    """They begin at the clock's milliseconds."""
    first = SignalSender("down").signals_to_send({"up": Demand(throttle_level=1)}, 100.0)[0]
    assert SignalSender("down").signals_to_send({"up": Demand(throttle_level=1)}, 100.1)[0].sequence > first.sequence


def test_a_restart_goes_on_asking() -> None:
    """With the next sequence, and since when it was asked first."""
    asking = SignalSender("down")
    (first,) = asking.signals_to_send({"up": Demand(throttle_level=1)}, 100.0)
    again = SignalSender("down", json.loads(json.dumps(asking.as_json())))
    (second,) = again.signals_to_send({"up": Demand(throttle_level=2)}, 99.0)
    assert second.sequence == first.sequence + 1
    assert again.active_signals() == [(second, 100.0)]
