"""Regulates the stages of an application while it runs: measures them, obeys signals, grants rates to the planners.

Signals between its own stages are values: a look goes from the last stage to the first, so that what a stage asks is
obeyed within the look in which it is asked. Only signals to and from stages of the job's other application travel over
a channel, which is opened where there are such stages.

backpressure.json          the mode and the channel, where another than the declared one was chosen
backpressure.state.json    what meters and admissions know, from which an application that is started again goes on
backpressure.apart.json    the same of the application of the stages apart, and how its stages are
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from springline.persistence.errors import DecodeError
from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.backpressure.accounting import Counting
from springline.spark_jobs.streaming.backpressure.admission import OFF, Admission, Admitted, Seen, make_admission
from springline.spark_jobs.streaming.backpressure.channel import Channel
from springline.spark_jobs.streaming.backpressure.config import Choice, Control, choice_of
from springline.spark_jobs.streaming.backpressure.queue import Measured, Meter
from springline.spark_jobs.streaming.backpressure.rate_limit import FASTEST, Rate, grant
from springline.spark_jobs.streaming.backpressure.signals import LEASE_SECONDS, RENEW_SECONDS, Signal
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import read_value, write_value
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.stage import Stage

LOOK_SECONDS = 0.05
_OFF_SECONDS = 0.5  # between two looks that only measure
_SHARE = 0.1  # of one core, at most, for looking
_KEPT_SECONDS = 1.0  # between two writings of the state
_CHANGED = 0.01  # of a rate, less than which is told with the next lease
_MOST = 2.0  # times its capacity: what a stage admits without back-pressure, at most
_STATE, _APART = "backpressure.state.json", "backpressure.apart.json"
_SILENT_SECONDS = 5.0  # after which what the other application has told is not true any more


@dataclass(frozen=True, slots=True)
class _Known:
    """What lies in the file of an application: what its meters and admissions of `mode` know, and how its stages are.

    What an admission knows is the matter of its mode, which may be another package's.
    """

    mode: str = ""
    meters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    admissions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    at: float = 0.0
    stages: Mapping[str, Any] = field(default_factory=dict)
    trouble: str = ""


_STATES: Codec[_Known] = Codec(_Known, 1, "the state of back-pressure", "remove the file, and rates are measured anew")


class Regulator:
    """Looks once when it is asked to.

    `stages` are all of the job, of which it regulates those that are `apart`, or those that are not. `open_channel`
    opens one of the chosen kind, for those of its stages that are asked by stages of the other application.
    """

    def __init__(
        self,
        declared: Choice,
        folder: JobFolder,
        stages: Sequence[Stage],
        tasks: int,
        open_channel: Callable[[Control, Collection[str]], Channel],
        *,
        apart: bool = False,
    ) -> None:
        self._declared = declared
        self._folder = folder
        self._stages = {stage.name: stage for stage in stages if stage.apart == apart}
        self._open_channel = open_channel
        self._counting = Counting(stages, tasks)
        self._asked, self._crossed = _across(self._counting.upstreams, self._stages)
        self._file = folder.path / (_APART if apart else _STATE)
        self._other = None if apart or len(self._stages) == len(stages) else folder.path / _APART
        self._before = read_value(self._file, _STATES) or _Known()
        self._meters = {name: Meter(self._before.meters.get(name)) for name in self._stages}
        self.choice: Choice | None = None
        self._channel: Channel | None = None
        self._admissions: dict[str, Admission] = {}
        self._granted: tuple[float, Mapping[str, Rate]] = (0.0, {})
        self._kept = self._at = 0.0

    @property
    def trouble(self) -> str:
        """What is wrong with the channel, in words; at either end of it."""
        own = "" if self._channel is None else self._channel.trouble
        return own or self._elsewhere().trouble

    def look(self, at: float) -> dict[str, Any]:
        """Measure and decide once, at a time in seconds since 1970; what there is to tell. Raises OSError."""
        choice, self._at = self._choose(), at
        counted = self._counting.count(at)
        asked: dict[str, list[Signal]] = {}
        told: dict[str, Any] = {}
        rates: dict[str, Rate] = {}
        for name, stage in reversed(self._stages.items()):  # whoever asks looks before whoever is asked
            signals = asked.get(name, [])
            if self._channel is not None:
                signals = [*signals, *self._channel.receive(name)]
            measured = self._meters[name].note(counted[name])
            upstreams = self._counting.upstreams[name]
            seen = Seen(measured, self._original(stage, measured), upstreams, signals, counted[name])
            admitted = self._admissions[name].look(seen)
            for signal in admitted.signals:
                asked.setdefault(signal.upstream, []).append(signal)
            if admitted.rate is not None:
                rates[name] = Rate(admitted.rate, self._counting.size(name))
            told[name] = _told(measured, admitted)
        if self._channel is not None:
            self._channel.send([each for name, some in asked.items() if name not in self._stages for each in some])
        self._grant(rates, at)
        stages = {name: told[name] for name in self._stages}
        self._keep(at, stages)
        return {"at": at, "mode": choice.mode, "control": choice.control if self._crossed else None, "stages": stages}

    def with_other_stages(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """What a look has told, with the stages of the other application as that one has told them."""
        stages = {**told.get("stages", {}), **self._elsewhere().stages}
        return {**told, "stages": {name: stages[name] for name in self._counting.upstreams if name in stages}}

    def close(self) -> None:
        """Let go of the channel; rates end with their leases."""
        if self._channel is not None:
            self._channel.close()

    def _choose(self) -> Choice:
        """Go on with what is chosen now; another mode begins anew. Raises `ExtensionError`."""
        chosen, before = choice_of(self._folder, self._declared), self.choice
        if chosen == before:
            return chosen
        if before is None or before.mode != chosen.mode:
            known = self._before.admissions if self._before.mode == chosen.mode else {}
            self._admissions = {name: make_admission(chosen.mode, name, known.get(name)) for name in self._stages}
            self._before = _Known()
        self.close()
        needed = self._crossed and chosen.mode != OFF
        self._channel = self._open_channel(chosen.control, self._asked) if needed else None
        self.choice = chosen
        return chosen

    def _elsewhere(self) -> _Known:
        """What the other application has told, while it tells anything; what cannot be read of it is its trouble."""
        try:
            told = read_value(self._other, _STATES) if self._other is not None else None
        except DecodeError as error:  # it runs another version
            return _Known(trouble=str(error))
        return told if told is not None and self._at - told.at < _SILENT_SECONDS else _Known()

    def _original(self, stage: Stage, measured: Measured) -> float:
        """What its `admitted` messages come to; what is far above its capacity is none."""
        most = stage.admitted * stage.units * self._counting.size(stage.name) / max(stage.pace, 0.02)
        able = FASTEST if measured.rate is None else _MOST * measured.rate
        return min(most or FASTEST, able)

    def _grant(self, rates: Mapping[str, Rate], at: float) -> None:
        until, before = self._granted
        due = bool(rates) and until - at <= LEASE_SECONDS - RENEW_SECONDS
        if due or _differ(before, rates):
            for name, stage in self._stages.items():
                grant(stage, rates.get(name), at + LEASE_SECONDS)
            self._granted = (at + LEASE_SECONDS, rates)

    def _keep(self, at: float, stages: Mapping[str, Any]) -> None:
        if at - self._kept < _KEPT_SECONDS or self.choice is None:
            return
        meters = {name: meter.as_json() for name, meter in self._meters.items()}
        admissions = {name: admission.as_json() for name, admission in self._admissions.items()}
        trouble = "" if self._channel is None else self._channel.trouble
        known = _Known(self.choice.mode, meters, admissions, at, stages, trouble)
        write_value(self._file, _STATES, known)
        self._kept = at


class Regulation(BackgroundService):
    """Does it for the stages of a job, every 50 ms."""

    section = "backpressure"

    def __init__(self, regulator: Regulator) -> None:
        super().__init__("back-pressure")
        self._regulator = regulator
        self._seen: dict[str, Any] = {}

    @property
    def trouble(self) -> str:
        """What went wrong last, also with signals."""
        return super().trouble or self._regulator.trouble

    def status(self) -> dict[str, Any]:
        """How back-pressure is, for the heartbeat; nothing before the first look."""
        return self._regulator.with_other_stages(self._seen) if self._seen else {}

    def _work(self) -> None:
        pause = 0.0
        while not self._over.wait(pause):
            begun = time.monotonic()
            with self._trying("back-pressure"):
                self._seen = self._regulator.look(time.time())
            choice = self._regulator.choice
            usual = _OFF_SECONDS if choice is not None and choice.mode == OFF else LOOK_SECONDS
            pause = max(usual, (time.monotonic() - begun) / _SHARE)
        self._regulator.close()


def _across(upstreams: Mapping[str, Collection[str]], own: Collection[str]) -> tuple[tuple[str, ...], bool]:
    """Which of its `own` stages others ask, and whether any signal crosses between its own and others."""
    edges = [(downstream, upstream) for downstream, some in upstreams.items() for upstream in some]
    asked = {upstream for downstream, upstream in edges if upstream in own and downstream not in own}
    return tuple(sorted(asked)), any((upstream in own) != (downstream in own) for downstream, upstream in edges)


def _differ(before: Mapping[str, Rate], after: Mapping[str, Rate]) -> bool:
    """Whether the planners are to know at once."""
    if before.keys() != after.keys():
        return True
    return any(abs(rate.rate - before[name].rate) > _CHANGED * before[name].rate for name, rate in after.items())


def _told(measured: Measured, admitted: Admitted) -> dict[str, Any]:
    """A stage as it is shown: bytes, bytes a second, seconds."""
    state = "throttled" if admitted.throttled_by else "overloaded" if admitted.throttles else "level"
    return {
        "state": state,
        "queue": round(measured.queue),
        "waiting": round(measured.waiting),
        "seconds": measured.seconds,
        "rate": admitted.rate,
        "capacity": measured.rate,
        "arriving": measured.arriving,
        "applied": measured.outflow,
        "throttled_by": [asdict(each) for each in admitted.throttled_by],
        "throttles": [asdict(each) for each in admitted.throttles],
    }
