"""The link of limited bandwidth, by a clock of the tests' own."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from springline.persistence.backends.bandwidth_limit import Link


@dataclass
class FakeClock:
    """A clock that only sleeping moves; several links may share it."""

    now: float = 100.0
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Sleep until then."""
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> FakeClock:
    """The clock of a test's links."""
    return FakeClock()


@pytest.fixture
def link(tmp_path: Path, clock: FakeClock) -> Link:
    """A link that passes a hundred bytes a second."""
    return Link(100, tmp_path / "link", clock=clock, sleep=clock.sleep)


def test_bytes_take_the_time_that_the_bandwidth_asks_for(clock: FakeClock, link: Link) -> None:
    """A thousand bytes at a hundred a second take ten seconds, in one piece or in ten; unused time is not saved up."""
    stream = link.stream(0)
    stream.pass_bytes(1000)
    assert clock.now == pytest.approx(110)
    for _ in range(10):
        stream.pass_bytes(100)
    assert clock.now == pytest.approx(120)
    clock.now = 500.0
    stream.pass_bytes(100)
    assert clock.now == pytest.approx(501)


def test_processes_share_one_bandwidth(tmp_path: Path, clock: FakeClock) -> None:
    """Who comes second waits for the first one's bytes too, though their clock stands still for another's sleep."""
    first, second = (Link(100, tmp_path / "link", clock=clock, sleep=clock.slept.append).stream(0) for _ in range(2))
    for _ in range(2):
        first.pass_bytes(100)
        second.pass_bytes(100)
    assert clock.slept == pytest.approx([1, 2, 3, 4])


@pytest.mark.parametrize(
    "content", [b"", b"xy", *(struct.pack("d", number) for number in (float("nan"), -1e9, 5_000_000.0))]
)
def test_a_damaged_state_file_is_an_idle_link(tmp_path: Path, clock: FakeClock, link: Link, content: bytes) -> None:
    """Half a number, or none, is no booking, nor is one of an earlier boot, whose clock was far ahead."""
    (tmp_path / "link").write_bytes(content)
    stream = link.stream(0)
    stream.pass_bytes(100)
    stream.pass_bytes(100)
    assert clock.slept == pytest.approx([1, 1])


def test_nothing_to_send_takes_no_time(tmp_path: Path, clock: FakeClock) -> None:
    """An empty chunk passes at once, whatever is booked."""
    link = Link(1, tmp_path / "link", clock=clock, sleep=clock.slept.append)
    for size in (1000, 0):
        link.stream(0).pass_bytes(size)
    assert clock.slept == [1000]


def test_a_stream_runs_ahead_by_its_buffer_and_its_last_byte_is_waited_for(clock: FakeClock, link: Link) -> None:
    """What the sender does between two chunks costs no time of the link, and the whole takes what it must."""
    stream = link.stream(buffer=200)
    for _ in range(10):
        stream.pass_bytes(100)
        clock.now += 0.3  # reading, hashing, writing
    stream.finish()
    assert clock.now == pytest.approx(110)


@pytest.mark.parametrize("buffers", [(), (0,)])
def test_a_stream_without_a_limit_waits_for_nothing(tmp_path: Path, clock: FakeClock, buffers: tuple[int, ...]) -> None:
    """Neither in its middle nor at its end, and it keeps no state."""
    stream = Link(0, tmp_path / "link", clock=clock, sleep=clock.sleep).stream(*buffers)
    stream.pass_bytes(10**12)
    stream.finish()
    assert clock.slept == [] and not (tmp_path / "link").exists()
