"""The patent's stepwise back-pressure with its holes closed: the mode `stepwise`.

What the text leaves open, and how it is closed here:

- *One overload lowers a rate by one step only* (its step 6 passes over an upstream that is throttled already): while
  the queue is above the high mark and does not shrink, a further step is taken every `patience` seconds.
- *Rates drift*: v'·(1/v') is not 1 in floating point, and a doubled message counts twice. A level is an integer, the
  rate is the original times v' to the level, and a signal says the level, not the change.
- *Two downstreams share an upstream*: each pair has a level of its own, the greatest (the least rate) wins, and the
  release of one does not free another's.
- *A dead task chokes its upstream for ever*: signals carry leases; when one has ended, the level falls by a whole step
  a second.
- *It oscillates for ever* where the right rate lies between two levels: a level is a sixteenth of v', a step is sixteen
  levels at first and at most, half as many after each reversal and twice as many from the third one in the same
  direction on. A level from which an overload came is not tried again for a time that doubles, up to a minute, unless
  the stage has been quicker for some seconds.
- *The queue of a stage in rounds is a saw*: marks are compared with the standing queue.
- *The original rate* is what the upstream admitted when it was first throttled, kept by itself, until it is free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from springline.persistence.model.codec import from_plain, plain
from springline.persistence.text.formatting import say_bytes
from springline.spark_jobs.streaming.backpressure.admission import MINIMUM, Admitted, Seen, Throttle, bounded, throttles
from springline.spark_jobs.streaming.backpressure.queue import Measured
from springline.spark_jobs.streaming.backpressure.signals import Ask, Asking, Received

PARTS = 16  # levels of a step of v'
_DEEPEST = 40 * PARTS  # the greatest level: at v' = 0.85 a sixth of a per cent of the original
_LONGEST_HOLD = 60.0  # seconds
_QUICKER = 1.1  # times the rate at an overload, for as long as this: what was learnt then is void
_QUICKER_SECONDS = 5.0  # longer than a burst that a stage takes when the one behind it lets it go for a moment


@dataclass(frozen=True, slots=True)
class Marks:
    """When a stage is overloaded and underloaded: bytes of its standing queue, and the seconds that the latter lasts.

    `ratio` is the patent's v', `patience` the seconds between two steps down. The patent's own marks are 50 MB, 500 KB
    and 2 s; those here are for rounds of a tenth of a second.
    """

    high: float = 5e6
    low: float = 500e3
    sensitivity: float = 0.3
    ratio: float = 0.85
    patience: float = 0.3

    def __post_init__(self) -> None:
        if not (0 < self.ratio < 1 and 0 <= self.low < self.high):
            raise ValueError(f"marks: 0 < ratio < 1 and 0 <= low < high are needed, and this is {self}")


@dataclass(frozen=True, slots=True)
class Pair:
    """What a stage remembers of one upstream.

    `level` as asked; `step` levels at a time, `down` the direction of the last `same` ones, of which the newest was
    taken at `changed` (None: there is none) with a queue of `queue`. Underloaded since `under`. `failed`: a level from
    which an overload came, at a rate of `rate`; it is tried again after `hold` seconds. The stage is `quicker` than
    that since then.
    """

    level: int = 0
    step: int = PARTS
    same: int = 0
    down: bool = True
    changed: float | None = None
    queue: float = 0.0
    under: float | None = None
    failed: int | None = None
    rate: float = 0.0
    hold: float = 0.0
    quicker: float | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """What an admission goes on from, beside its signals; `origin` is what it admitted before it was throttled."""

    pairs: dict[str, Pair] = field(default_factory=dict)
    origin: float | None = None


def stepped(pair: Pair, measured: Measured, marks: Marks) -> Pair:
    """What is asked of a pair after a look."""
    at, queue = measured.at, measured.standing
    quicker = pair.failed is not None and measured.rate is not None and measured.rate > _QUICKER * pair.rate
    since = (at if pair.quicker is None else pair.quicker) if quicker else None
    pair = replace(pair, quicker=since)
    if since is not None and at - since >= _QUICKER_SECONDS:
        pair = replace(pair, failed=None, hold=0.0, quicker=None)
    if queue >= marks.high:
        pair = replace(pair, under=None)
        return _down(pair, measured, marks) if pair.changed is None or at - pair.changed >= marks.patience else pair
    if queue > marks.low:
        return replace(pair, under=None)
    if pair.level == 0:
        return Pair()
    if pair.under is None:
        return replace(pair, under=at)
    return _up(pair, pair.under, measured, marks)


def _down(pair: Pair, measured: Measured, marks: Marks) -> Pair:
    at, queue = measured.at, measured.standing
    if pair.down and pair.level and queue < pair.queue:
        return replace(pair, queue=queue, changed=at)  # it shrinks already
    if pair.down:
        step = _grown(pair) if pair.level else PARTS
        known = replace(pair, same=pair.same + 1)
    else:  # the last step up was one too many
        step = max(pair.step // 2, 1)
        hold = min(max(pair.hold * 2, marks.sensitivity * 2), _LONGEST_HOLD)
        known = replace(pair, same=1, failed=pair.level, rate=measured.rate or 0.0, hold=hold)
    return replace(known, level=min(pair.level + step, _DEEPEST), step=step, down=True, changed=at, queue=queue)


def _up(pair: Pair, under: float, measured: Measured, marks: Marks) -> Pair:
    step, same = (max(pair.step // 2, 1), 1) if pair.down else (_grown(pair), pair.same + 1)
    level = max(pair.level - step, 0)
    wait, failed = marks.sensitivity, pair.failed
    if failed is not None and level <= failed:
        if pair.level - failed > 1:
            level, step = failed + 1, pair.level - failed - 1  # as far as is known to be well
        else:
            level, step, wait, failed = pair.level - 1, 1, pair.hold, None
    if measured.at - (under if pair.changed is None else max(under, pair.changed)) < wait:
        return pair
    return replace(
        pair, level=level, step=step, same=same, down=False, changed=measured.at, under=measured.at, failed=failed
    )


def _grown(pair: Pair) -> int:
    return min(pair.step * (2 if pair.same > 1 else 1), PARTS)


class Stepwise:
    """The mode `stepwise` for one stage."""

    def __init__(self, stage: str, state: Mapping[str, Any] | None = None, marks: Marks | None = None) -> None:
        known = from_plain(_Known, state or {}, f"the state of back-pressure of stage {stage}")
        self._stage = stage
        self._marks = marks or Marks()
        self._pairs, self._origin = known.pairs, known.origin
        self._asking = Asking(stage, state)
        self._received = Received(state)

    def look(self, seen: Seen) -> Admitted:
        """Decide once; see `Admission`."""
        rate, by = self._obeyed(seen)
        able = min((each for each in (seen.measured.rate, rate) if each is not None), default=None)
        measured = replace(seen.measured, rate=able)  # one that is throttled is no quicker than that
        self._pairs = {
            upstream: stepped(self._pairs.get(upstream, Pair()), measured, self._marks) for upstream in seen.upstreams
        }
        why = f"{say_bytes(seen.measured.standing)} wait, and {say_bytes(self._marks.high)} are too much"
        wanted = {upstream: Ask(pair.level, None, why) for upstream, pair in self._pairs.items()}
        signals = self._asking.signals(wanted, seen.at)
        return Admitted(rate, signals, by, throttles(self._asking))

    def as_json(self) -> dict[str, Any]:
        """The state, from which another one goes on."""
        known = plain(_Known(self._pairs, self._origin))
        return {**known, **self._asking.as_json(), **self._received.as_json()}

    def _obeyed(self, seen: Seen) -> tuple[float | None, tuple[Throttle, ...]]:
        self._received.take(seen.signals, seen.at)
        by = []
        for held in self._received.held():
            signal, overdue = held.signal, held.overdue(seen.at)
            level = signal.level - (PARTS * (1 + int(overdue)) if overdue else 0)
            if level > 0:
                by.append(Throttle(signal.downstream, self._stage, held.since, signal.why, level))
            elif overdue:
                self._received.forget(signal.downstream)
        if not by:
            self._origin = None
            return None, ()
        if self._origin is None:
            self._origin = min(max(seen.measured.outflow, MINIMUM), seen.original)
        deepest = max(throttle.level for throttle in by)
        return bounded(min(self._origin, seen.original) * self._marks.ratio ** (deepest / PARTS), seen.original), tuple(
            by
        )
