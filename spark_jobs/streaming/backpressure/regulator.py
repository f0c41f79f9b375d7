"""Regulates a job while it runs: measures its stages, sends and obeys signals, grants rates to the planners.

backpressure.json          the mode and the channel, where another than the declared one was chosen
backpressure.state.json    what meters and admissions know, from which an application that is started again goes on
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from springline.spark_jobs.streaming.backpressure.accounting import Counting
from springline.spark_jobs.streaming.backpressure.admission import Admission, Admitted, Mode, Seen
from springline.spark_jobs.streaming.backpressure.channel import Channel, InMemory
from springline.spark_jobs.streaming.backpressure.config import Choice, Control, choice_of
from springline.spark_jobs.streaming.backpressure.modes import make_admission
from springline.spark_jobs.streaming.backpressure.predictive import Tuning
from springline.spark_jobs.streaming.backpressure.queue import Measured, Meter
from springline.spark_jobs.streaming.backpressure.rate_limit import FASTEST, Rate, grant
from springline.spark_jobs.streaming.backpressure.signals import LEASE_SECONDS, RENEW_SECONDS
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import read_json, write_json
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.stage import Stage

LOOK_SECONDS = 0.05
_OFF_SECONDS = 0.5  # between two looks that only measure
_SHARE = 0.1  # of one core, at most, for looking
_KEPT_SECONDS = 1.0  # between two writings of the state
_CHANGED = 0.01  # of a rate, less than which is told with the next lease
_MOST = 2.0  # times its capacity: what a stage admits without back-pressure, at most
_BUFFER = 1e6  # bytes that may wait before any stage, however slow it was with little to do
_STATE = "backpressure.state.json"


class Regulator:
    """Looks once when it is asked to; `make_channel` opens one of the chosen kind."""

    def __init__(
        self,
        declared: Choice,
        folder: JobFolder,
        stages: Sequence[Stage],
        tasks: int,
        make_channel: Callable[[Control], Channel],
    ) -> None:
        self._declared = declared
        self._folder = folder
        self._stages = stages
        self._state = Path(stages[0].state)
        self._make_channel = make_channel
        self._counting = Counting(stages, tasks)
        told = read_json(folder.path / _STATE) or {}
        self._meters = {stage.name: Meter(told.get("meters", {}).get(stage.name)) for stage in stages}
        self._before = told
        self.choice: Choice | None = None
        self._channel: Channel = InMemory()
        self._admissions: dict[str, Admission] = {}
        self._granted: tuple[float, Mapping[str, Rate]] = (0.0, {})
        self._kept = 0.0

    @property
    def trouble(self) -> str:
        """What is wrong with the channel, in words."""
        return self._channel.trouble

    def look(self, at: float) -> dict[str, Any]:
        """Measure and decide once, at a time in seconds since 1970; what there is to tell. Raises OSError."""
        self._choose()
        counted = self._counting.count(at)
        told: dict[str, Any] = {}
        rates: dict[str, Rate] = {}
        for stage in self._stages:
            name = stage.name
            measured = self._meters[name].note(counted[name])
            signals = self._channel.receive(name)
            upstreams = self._counting.upstreams[name]
            admitted = self._admissions[name].look(
                Seen(measured, self._original(stage, measured), upstreams, signals, counted[name])
            )
            self._channel.send(admitted.signals)
            if admitted.rate is not None:
                rates[name] = Rate(admitted.rate, self._counting.size(name))
            told[name] = _told(measured, admitted)
        self._grant(rates, at)
        self._keep(at)
        assert self.choice is not None
        return {"at": at, **asdict(self.choice), "stages": told}

    def close(self) -> None:
        """Let go of the channel; rates end with their leases."""
        self._channel.close()

    def _choose(self) -> None:
        """Go on with what is chosen now; another mode begins anew."""
        chosen, before = choice_of(self._folder, self._declared), self.choice
        if chosen == before:
            return
        if before is None or before.mode is not chosen.mode:
            known = self._before.get("admissions", {}) if self._before.get("mode") == chosen.mode else {}
            self._before = {}
            self._admissions = {
                name: make_admission(chosen.mode, name, known.get(name), tuning=Tuning(buffer=_BUFFER))
                for name in self._meters
            }
        self._channel.close()
        self._channel = InMemory() if chosen.mode is Mode.OFF else self._make_channel(chosen.control)
        self.choice = chosen

    def _original(self, stage: Stage, measured: Measured) -> float:
        """What its `admitted` messages come to; what is far above its capacity is none."""
        most = stage.admitted * stage.units * self._counting.size(stage.name) / max(stage.pace, 0.02)
        able = FASTEST if measured.rate is None else _MOST * measured.rate
        return min(most or FASTEST, able)

    def _grant(self, rates: Mapping[str, Rate], at: float) -> None:
        until, before = self._granted
        due = bool(rates) and until - at <= LEASE_SECONDS - RENEW_SECONDS
        if due or _differ(before, rates):
            grant(self._state, rates, at + LEASE_SECONDS)
            self._granted = (at + LEASE_SECONDS, rates)

    def _keep(self, at: float) -> None:
        if at - self._kept < _KEPT_SECONDS or self.choice is None:
            return
        meters = {name: meter.as_json() for name, meter in self._meters.items()}
        admissions = {name: admission.as_json() for name, admission in self._admissions.items()}
        told = {"mode": self.choice.mode, "meters": meters, "admissions": admissions}
        write_json(self._folder.path / _STATE, told)
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
        return self._seen

    def _work(self) -> None:
        pause = 0.0
        while not self._over.wait(pause):
            begun = time.monotonic()
            with self._trying("back-pressure"):
                self._seen = self._regulator.look(time.time())
            choice = self._regulator.choice
            usual = _OFF_SECONDS if choice is not None and choice.mode is Mode.OFF else LOOK_SECONDS
            pause = max(usual, (time.monotonic() - begun) / _SHARE)
        self._regulator.close()


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
