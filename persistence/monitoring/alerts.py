"""Alerts: judges the rules over readings, keeps what stands in a file, tells each beginning and each end once."""

from __future__ import annotations

import fcntl
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from springline.persistence.errors import DecodeError
from springline.persistence.model.codec import Codec
from springline.persistence.monitoring.metric import Meter, Reading
from springline.persistence.monitoring.metrics import ALERT
from springline.persistence.monitoring.rules import Judgement, Rule, Severity, Standing, judge
from springline.persistence.private_files import private_folder

_LEVELS = {Severity.CRITICAL: logging.ERROR, Severity.WARNING: logging.WARNING, Severity.INFO: logging.INFO}

logger = logging.getLogger("springline.alerts")


@dataclass(frozen=True)
class AlertState:
    """What stands of one subject of monitoring; which rules were judged, when (seconds since 1970), and by whom."""

    standing: tuple[Standing, ...] = ()
    rules: tuple[str, ...] = ()
    at: float = 0.0
    actor: str = ""


_STATES: Codec[AlertState] = Codec(AlertState, 1, "what stands of alerts", "what stands is told anew")


class Alerts:
    """The alerts of one subject of monitoring: of persistence, or of a job; `name` names their file in `folder`.

    Several processes may judge by turns, as the same `actor`: what stands is in the file, and one has it at a time.
    """

    def __init__(self, folder: Path, name: str, *, actor: str) -> None:
        self._folder = folder
        self._name = name
        self._actor = actor

    def judge(self, rules: Sequence[Rule], readings: Sequence[Reading], meter: Meter, now: float) -> Judgement:
        """Judge once, at a time in seconds since 1970; what begins and what ends is logged, what stands is metered."""
        with self._held() as file:
            judgement = judge(rules, readings, state_in(file).standing, now)
            state = AlertState(judgement.standing, tuple(rule.name for rule in rules), now, self._actor)
            half = file.with_suffix(".half")
            half.write_bytes(_STATES.encode(state))
            half.replace(file)
        for begun in judgement.begun:
            level = _LEVELS[Severity(begun.severity)]
            logger.log(level, "alert begins: %s: %s (%g)", begun.key, begun.words, begun.value)
        for ended in judgement.ended:
            logger.info("alert ends: %s, after %.0f s", ended.key, now - ended.since)
        for rule in rules:
            count = sum(each.rule == rule.name and each.told for each in judgement.standing)
            meter.tell(ALERT, count, rule=rule.name, severity=rule.severity.value)
        return judgement

    @contextmanager
    def _held(self) -> Iterator[Path]:
        private_folder(self._folder)
        with (self._folder / f"{self._name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self._folder / f"{self._name}.json"


def state_in(file: Path) -> AlertState:
    """What a file says; nothing where there is none, or where it cannot be read: then all begins anew."""
    try:
        return _STATES.decode(file.read_bytes(), str(file))
    except FileNotFoundError:
        return AlertState()
    except DecodeError as error:
        logger.warning("%s: what stands is told anew", error)
        return AlertState()


def states_in(folder: Path) -> list[AlertState]:
    """Those of persistence and of all jobs that were judged."""
    states = [state_in(file) for file in sorted(folder.glob("*.json"))]
    return [state for state in states if state.rules]


def standing_in_all(states: Iterable[AlertState]) -> list[Standing]:
    """All that stands or is about to, the oldest first."""
    return sorted((each for state in states for each in state.standing), key=lambda each: (each.since, each.key))
