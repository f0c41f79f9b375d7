"""The link of limited bandwidth, by a clock of the tests' own."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from springline.persistence.backends.bandwidth_limit import Link


class FakeClock:
    """A clock that only sleeping moves; several links may share it."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def note(self, seconds: float) -> None:
        """Sleep as another process would: this one's clock stands still."""
        self.slept.append(seconds)


def test_bytes_take_the_time_that_the_bandwidth_asks_for(tmp_path: Path) -> None:
    """A thousand bytes at a hundred a second take ten seconds, in one piece or in ten."""
    clock = FakeClock(100.0)
    link = Link(100, tmp_path / "link", clock=clock, sleep=clock.sleep)
    stream = link.stream(0)
    stream.pass_bytes(1000)
    assert clock.now == pytest.approx(110)
    for _ in range(10):
        stream.pass_bytes(100)
    assert clock.now == pytest.approx(120)


def test_time_that_nobody_used_is_not_saved_up(tmp_path: Path) -> None:
    """A link that stood idle passes no faster afterwards."""
    clock = FakeClock(100.0)
    link = Link(100, tmp_path / "link", clock=clock, sleep=clock.sleep)
    stream = link.stream(0)
    stream.pass_bytes(100)
    clock.now = 500.0
    stream.pass_bytes(100)
    assert clock.now == pytest.approx(501)


def test_processes_share_one_bandwidth(tmp_path: Path) -> None:
    """Who comes second waits for the first one's bytes too."""
    clock = FakeClock(100.0)
    first = Link(100, tmp_path / "link", clock=clock, sleep=clock.note).stream(0)
    second = Link(100, tmp_path / "link", clock=clock, sleep=clock.note).stream(0)
    for _ in range(2):
        first.pass_bytes(100)
        second.pass_bytes(100)
    assert clock.slept == pytest.approx([1, 2, 3, 4])


def test_a_booking_of_an_earlier_boot_holds_nobody_up(tmp_path: Path) -> None:
    """The machine's clock starts anew at a boot, and a state file from before lies far ahead."""
    state = tmp_path / "link"
    state.write_bytes(struct.pack("d", 5_000_000.0))
    clock = FakeClock(10.0)
    Link(100, state, clock=clock, sleep=clock.sleep).stream(0).pass_bytes(100)
    assert clock.slept == pytest.approx([1])


@pytest.mark.parametrize("content", [b"", b"xy", struct.pack("d", float("nan")), struct.pack("d", -1e9)])
def test_a_damaged_state_file_is_an_idle_link(tmp_path: Path, content: bytes) -> None:
    """Half a number, or none, is no booking."""
    state = tmp_path / "link"
    state.write_bytes(content)
    clock = FakeClock(10.0)
    stream = Link(100, state, clock=clock, sleep=clock.sleep).stream(0)
    stream.pass_bytes(100)
    stream.pass_bytes(100)
    assert clock.now == pytest.approx(12)


def test_no_bandwidth_means_no_limit(tmp_path: Path) -> None:
    """Zero lets everything pass, and keeps no state."""
    clock = FakeClock()
    Link(0, tmp_path / "link", clock=clock, sleep=clock.sleep).stream(0).pass_bytes(10**12)
    assert clock.slept == [] and not (tmp_path / "link").exists()


def test_nothing_to_send_takes_no_time(tmp_path: Path) -> None:
    """An empty chunk passes at once, whatever is booked."""
    clock = FakeClock()
    link = Link(1, tmp_path / "link", clock=clock, sleep=clock.note)
    link.stream(0).pass_bytes(1000)
    link.stream(0).pass_bytes(0)
    assert clock.slept == [1000]


def test_a_stream_runs_ahead_by_its_buffer_and_its_last_byte_is_waited_for(tmp_path: Path) -> None:
    """What the sender does between two chunks costs no time of the link, and the whole takes what it must."""
    clock = FakeClock(100.0)
    link = Link(100, tmp_path / "link", clock=clock, sleep=clock.sleep)
    stream = link.stream(buffer=200)
    for _ in range(10):
        stream.pass_bytes(100)
        clock.now += 0.3  # reading, hashing, writing
    stream.finish()
    assert clock.now == pytest.approx(110)


def test_a_stream_without_a_limit_waits_for_nothing(tmp_path: Path) -> None:
    """Neither in its middle nor at its end."""
    clock = FakeClock()
    stream = Link(0, tmp_path / "link", clock=clock, sleep=clock.sleep).stream()
    stream.pass_bytes(10**12)
    stream.finish()
    assert clock.slept == []
