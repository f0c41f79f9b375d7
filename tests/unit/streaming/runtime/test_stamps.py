"""Stamps between stages: what a unit takes, what it drops, and what it refuses to go on without."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springline.persistence.model.codec import to_json_value
from springline.spark_jobs.streaming.errors import StampGapError
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.stamps import (
    HEADER,
    AcceptedMessages,
    EndMarker,
    Stamp,
    UpstreamPosition,
    accept,
    upstream_positions,
)


def stamps_of_round(unit: int, number: int, buffers: int, *, incarnation: int = 1) -> list[Stamp]:
    """All that one attempt of a round sends to one unit."""
    data = [Stamp(incarnation, unit, number, i) for i in range(buffers)]
    return [*data, Stamp(incarnation, unit, number, buffers, EndMarker(buffers, number * 10.0, number * 1000))]


def log_of(stamps: Iterable[Stamp]) -> list[Message]:
    """A unit's log with these stamps; a message's value names its stamp."""
    return [
        Message(2 * i, f"{s.unit}/{s.round}/{s.sequence}".encode(), headers={HEADER: s.encode()})
        for i, s in enumerate(stamps)
    ]


def taken_of(accepted: AcceptedMessages) -> list[bytes]:
    """The values of what was kept."""
    return [bytes(message.value) for message in accepted.messages]


@given(
    st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**63), st.integers(0, 2**32 - 1),
    st.none() | st.builds(EndMarker, st.integers(0, 2**64 - 1), st.none() | st.floats(-1e9, 1e11),
                          st.integers(0, 2**63), st.booleans(), st.floats(0, 1e11),
                          st.dictionaries(st.integers(0, 2**32 - 1), st.integers(0, 2**63), max_size=3)),
)  # fmt: skip
def test_a_stamp_is_read_as_it_was_written(incarnation: int, unit: int, number: int, seq: int, end: EndMarker) -> None:
    """Header bytes say all of it."""
    stamp = Stamp(incarnation, unit, number, seq, end)
    assert Stamp.decode(stamp.encode()) == stamp


@given(st.data())
def test_whatever_attempts_and_zombies_repeat_each_message_is_taken_once_in_order(data: st.DataObject) -> None:
    """Attempts stop anywhere, older ones go on sending later, and the log is cut into ranges anywhere."""
    dice = random.Random(data.draw(st.integers(0, 10**6)))
    rounds = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    stamps: list[Stamp] = []
    zombies: list[list[Stamp]] = []
    for number, buffers in enumerate(rounds, start=1):
        attempt_stamps = stamps_of_round(7, number, buffers)
        for _ in range(dice.randrange(3)):  # attempts that die, some of them only after the next round began
            cut = dice.randrange(len(attempt_stamps) + 1)
            stamps += attempt_stamps[:cut]
            zombies.append(attempt_stamps[:])
        stamps += attempt_stamps
        for zombie in zombies:
            stamps += [zombie.pop(0) for _ in range(min(len(zombie), dice.randrange(3)))]
    positions: dict[int, UpstreamPosition] = {}
    values: list[bytes] = []
    messages = log_of(stamps)
    while messages:
        cut = dice.randrange(1, len(messages) + 1)
        accepted = accept(messages[:cut], positions, 1, log="log")
        messages = messages[cut:]
        positions = upstream_positions({"positions": to_json_value(accepted.positions)}, "here")
        values += taken_of(accepted)
    assert values == [f"7/{n}/{i}".encode() for n, count in enumerate(rounds, start=1) for i in range(count)]
    newest = positions[7]
    assert (newest.round_ended, newest.round, newest.watermark) == (True, len(rounds), len(rounds) * 10.0)


def test_units_upstream_are_taken_apart_from_each_other() -> None:
    """One may be rounds ahead of another."""
    stamps = [*stamps_of_round(0, 1, 2), *stamps_of_round(0, 2, 1), *stamps_of_round(1, 1, 1)]
    accepted = accept(log_of(stamps), {}, 1, log="log")
    assert accepted.watermarks == {0: 20.0, 1: 10.0} and accepted.dropped_count == 0
    assert taken_of(accepted) == [b"0/1/0", b"0/1/1", b"0/2/0", b"1/1/0"]
    ended_rounds = [(each.unit, each.round, each.watermark) for each in accepted.ended_rounds]
    assert ended_rounds == [(0, 1, 10), (0, 2, 20), (1, 1, 10)]


def test_the_clock_of_a_unit_upstream_is_that_of_its_last_end() -> None:
    """And so are whether it is idle, and its watermark."""
    idle = Stamp(1, 0, 1, 0, EndMarker(0, 5.0, 0, idle=True, clock=100.0))
    accepted = accept(log_of([idle, Stamp(1, 0, 2, 0)]), {}, 1, log="log")
    assert accepted.clocks == {0: 100.0} and accepted.idle_units == {0} and accepted.watermarks == {0: 5.0}


@pytest.mark.parametrize("lost_sequence", [0, 1, 2])
def test_what_an_attempt_sent_after_something_that_was_lost_is_dropped(lost_sequence: int) -> None:
    """The broker was away for a moment, and the attempt failed: another one sends all of the round again."""
    attempt_stamps = stamps_of_round(0, 2, 3)
    failed = [stamp for stamp in attempt_stamps if stamp.sequence != lost_sequence]
    accepted = accept(
        log_of([*stamps_of_round(0, 1, 1), *failed, *attempt_stamps, *stamps_of_round(0, 3, 1)]), {}, 1, log="log"
    )
    assert taken_of(accepted) == [b"0/1/0", b"0/2/0", b"0/2/1", b"0/2/2", b"0/3/0"]


def test_an_earlier_incarnation_is_dropped() -> None:
    """What was sent before a rewind counts no more, though its rounds would follow."""
    old, new = stamps_of_round(0, 3, 2, incarnation=1), stamps_of_round(0, 3, 1, incarnation=2)
    accepted = accept(log_of([*old, *new]), {0: UpstreamPosition(2, 1)}, 2, log="log")
    assert taken_of(accepted) == [b"0/3/0"] and accepted.dropped_count == 3


def test_a_later_incarnation_is_an_error_though_its_round_was_taken_in_this_one() -> None:
    """It is another round: dropping it would leave its messages out."""
    with pytest.raises(StampGapError, match=r"incarnation 2"):
        accept(log_of(stamps_of_round(0, 1, 1, incarnation=2)), {0: UpstreamPosition(3, 1)}, 1, log="log")


@pytest.mark.parametrize(
    "stamps",
    [
        [*stamps_of_round(0, 1, 3)[1:], *stamps_of_round(0, 2, 1)],  # the first message
        [*stamps_of_round(0, 1, 3)[:1], *stamps_of_round(0, 1, 3)[2:], *stamps_of_round(0, 2, 1)],  # one in the middle
        [*stamps_of_round(0, 1, 2)[:2], *stamps_of_round(0, 2, 1)],  # an end
        [*stamps_of_round(0, 1, 1), *stamps_of_round(0, 3, 1)],  # a whole round
        [*stamps_of_round(0, 1, 1)[:1], Stamp(1, 0, 1, 1, EndMarker(2, None, 0))],  # the last before an end
        stamps_of_round(0, 1, 1, incarnation=2),  # a rewind that this unit knows nothing of
    ],
)
def test_a_missing_message_is_an_error_that_names_log_and_offset(stamps: list[Stamp]) -> None:
    """It is never passed over: a result would be wrong for ever."""
    with pytest.raises(StampGapError, match=r"netflow\.partials\[3\], offset \d+"):
        accept(log_of(stamps), {}, 1, log="netflow.partials[3]")


@pytest.mark.parametrize(
    "headers", [{}, {HEADER: b""}, {HEADER: b"\x09" + bytes(53)}, {HEADER: Stamp(1, 0, 1, 0).encode() + b"\0"}]
)
def test_a_message_without_a_stamp_of_ours_ends_nothing(headers: dict[str, bytes]) -> None:
    """Somebody else writes into a log that is between two stages: the unit leaves it out, and says where."""
    first, *rest = log_of(stamps_of_round(0, 1, 2))
    odd = Message(5, b"", headers=headers)
    accepted = accept([first, odd, *rest], {}, 1, log="partials[0]")
    assert taken_of(accepted) == [b"0/1/0", b"0/1/1"]
    assert accepted.foreign_offsets == (5,)
