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


def levels(receiver: SignalReceiver) -> dict[str, int]:
    """What is obeyed, by stage downstream."""
    return {each.signal.downstream: each.signal.throttle_level for each in receiver.active_signals()}


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
    """The greatest sequence of a pair counts; so a throttle does not come back after its release."""
    receiver = SignalReceiver()
    receiver.accept([signal(2, level=5), signal(1, level=1), signal(2, level=5)], 0.0)
    assert levels(receiver) == {"down": 5}
    receiver.accept([signal(4, level=0)], 0.0)
    receiver.accept([signal(3, level=4)], 1.0)
    assert levels(receiver) == {"down": 0}
    assert newest_by_pair([signal(2, level=5), signal(1, level=1)]) == {("down", "up"): signal(2, level=5)}


def test_a_late_signal_is_not_obeyed_and_a_clock_that_is_fast_does_not_bind_for_ever() -> None:
    """The lease of the first is over; that of the others ends at the latest so long after the signal came."""
    receiver = SignalReceiver()
    receiver.accept([signal(1, until=3.0)], 3.0)
    assert levels(receiver) == {}
    receiver.accept([signal(1, until=1e12), signal(1, until=None, downstream="other")], 5.0)
    assert [active_signal.ends for active_signal in receiver.active_signals()] == [5.0 + LONGEST_LEASE] * 2


def test_since_when_is_kept_while_a_pair_is_throttled() -> None:
    """From the first signal, not from the newest."""
    receiver = SignalReceiver()
    receiver.accept([signal(1, level=1)], 1.0)
    receiver.accept([signal(2, level=2)], 2.0)
    assert receiver.active_signals()[0].since == 1.0
    receiver.accept([signal(3, level=0)], 3.0)
    receiver.accept([signal(4, level=2)], 4.0)
    assert receiver.active_signals()[0].since == 4.0


def test_the_same_is_asked_again_before_its_lease_ends() -> None:
    """Each time with a greater sequence."""
    sender, demands = SignalSender("down"), {"up": Demand(throttle_level=2)}
    signals = [each for tick in range(80) for each in sender.signals_to_send(demands, 100 + tick * 0.05)]
    gaps = [after.until - before.until for before, after in itertools.pairwise(signals)]  # type: ignore[operator]
    assert max(gaps) <= RENEW_SECONDS + 0.06 < LEASE_SECONDS / 2
    assert all(after.sequence > before.sequence for before, after in itertools.pairwise(signals))


def test_a_change_is_asked_at_once_and_a_small_one_of_a_rate_is_not() -> None:
    """From 2 % on; nothing is sent as long as nothing is asked."""
    sender = SignalSender("down")
    assert not sender.signals_to_send({"up": Demand()}, 0.0)
    assert sender.signals_to_send({"up": Demand(rate=100.0)}, 0.0)
    assert not sender.signals_to_send({"up": Demand(rate=101.9)}, 0.01)
    assert sender.signals_to_send({"up": Demand(rate=102.1)}, 0.02)
    assert sender.signals_to_send({"up": Demand()}, 0.03)[0].is_release
    assert not sender.signals_to_send({"up": Demand()}, 0.04)
    assert sender.active_signals() == []


def test_sequences_ascend_also_without_a_state() -> None:
    """They begin at the clock's milliseconds."""
    first = SignalSender("down").signals_to_send({"up": Demand(throttle_level=1)}, 100.0)[0]
    assert SignalSender("down").signals_to_send({"up": Demand(throttle_level=1)}, 100.1)[0].sequence > first.sequence


def test_a_restart_goes_on_asking() -> None:
    """With the next sequence, and since when it was asked first."""
    sender = SignalSender("down")
    (first,) = sender.signals_to_send({"up": Demand(throttle_level=1)}, 100.0)
    restored_sender = SignalSender("down", json.loads(json.dumps(sender.as_json())))
    (second,) = restored_sender.signals_to_send({"up": Demand(throttle_level=2)}, 99.0)
    assert second.sequence == first.sequence + 1
    assert restored_sender.active_signals() == [(second, 100.0)]
