"""What every channel of signals has to do; each end is a process's, as far as the channel knows."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

import pytest

from springline.spark_jobs.streaming.backpressure.channel import Channel, SignalBuffer
from springline.spark_jobs.streaming.backpressure.signals import Signal

PATIENCE = 40.0  # seconds until a test gives up on a server that was started again


def signal(sequence: int, *, downstream: str = "count", upstream: str = "parse", level: int = 1) -> Signal:
    """A signal whose lease has just started."""
    return Signal(downstream, upstream, sequence, time.time() + 5, level, None, f"number {sequence}")


def received(end: Channel, upstream: str, expected_pairs: int = 1, patience: float = PATIENCE) -> list[Signal]:
    """The newest of each pair, once so many pairs have come."""
    signals: dict[str, Signal] = {}
    until = time.monotonic() + patience
    while time.monotonic() < until:
        signals |= {each.downstream: each for each in end.receive(upstream)}
        if len(signals) >= expected_pairs:
            return [signals[name] for name in sorted(signals)]
        time.sleep(0.01)
    raise AssertionError(f"{signals} came for {upstream}; {end.last_error}")


def received_last(end: Channel, last: Signal) -> list[Signal]:
    """All that comes, up to a signal."""
    signals: list[Signal] = []
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        signals += end.receive(last.upstream)
        if last in signals:
            return signals
        time.sleep(0.01)
    raise AssertionError(f"{signals} came, and not {last}; {end.last_error}")


class Pipe:
    """A channel between two applications that a test plays in one process; each has it as its end."""

    def __init__(self) -> None:
        self._inbox = SignalBuffer()
        self.last_error = ""
        self.closed = False

    def send(self, signals: Sequence[Signal]) -> None:
        """They have come when this returns."""
        self._inbox.put(signals)

    def receive(self, upstream: str) -> list[Signal]:
        """See `Channel`."""
        return self._inbox.take(upstream)

    def close(self) -> None:
        """See `Channel`."""
        self.closed = True


class ChannelSuite:
    """To be inherited; the fixture `open_end` opens an end for some stages, of a channel of this test's own."""

    @pytest.fixture
    def open_end(self) -> Callable[[Collection[str]], Channel]:
        """Opens an end."""
        raise NotImplementedError

    def test_what_is_sent_at_one_end_comes_at_the_other(self, open_end: Callable[[Collection[str]], Channel]) -> None:
        """As it was sent, for the stage that it is for, and once."""
        here, there = open_end(["count"]), open_end(["parse", "spring"])
        first, second = signal(1), signal(1, upstream="spring")
        here.send([first, second])
        assert received(there, "parse") == [first]
        assert received(there, "spring") == [second]
        assert there.receive("parse") == []

    def test_signals_of_several_downstreams_come_side_by_side(
        self, open_end: Callable[[Collection[str]], Channel]
    ) -> None:
        """None takes the place of another's."""
        here, there = open_end(["count", "keep"]), open_end(["parse"])
        here.send([signal(1), signal(1, downstream="keep")])
        assert [each.downstream for each in received(there, "parse", 2)] == ["count", "keep"]

    def test_the_newest_signal_comes_whatever_became_of_those_before(
        self, open_end: Callable[[Collection[str]], Channel]
    ) -> None:
        """Those before may have come too, in their order."""
        here, there = open_end(["count"]), open_end(["parse"])
        sent = [signal(number) for number in range(1, 21)]
        for each in sent:
            here.send([each])
        sequences = [each.sequence for each in received_last(there, sent[-1])]
        assert sequences == sorted(sequences)
        assert sequences[-1] == 20

    def test_both_ends_may_send_and_receive(self, open_end: Callable[[Collection[str]], Channel]) -> None:
        """A stage in the middle does both."""
        here, there = open_end(["count", "parse"]), open_end(["spring"])
        here.send([signal(1), signal(1, downstream="parse", upstream="spring")])
        assert received(here, "parse")[0].downstream == "count"
        assert received(there, "spring")[0].downstream == "parse"
