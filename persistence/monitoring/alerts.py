"""Alerts: judges the rules over readings, keeps what stands in a file, tells each beginning and each end once."""

from __future__ import annotations

import fcntl
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from persistence.monitoring.metric import Meter, Reading
from persistence.monitoring.metrics import ALERT
from persistence.monitoring.rules import Judgement, Rule, Severity, Standing, judge

_LEVELS = {Severity.CRITICAL: logging.ERROR, Severity.WARNING: logging.WARNING, Severity.INFO: logging.INFO}

logger = logging.getLogger("springline.alerts")


class Alerts:
    """The alerts of one subject of monitoring: of persistence, or of a job; `name` names their file in `folder`.

    Several processes may judge by turns: what stands is in the file, and one has it at a time.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name

    def judge(self, rules: Sequence[Rule], readings: Sequence[Reading], meter: Meter, now: float) -> Judgement:
        """Judge once, at a time in seconds since 1970; what begins and what ends is logged, what stands is metered."""
        with self._held() as file:
            judgement = judge(rules, readings, standing_in(file), now)
            half = file.with_suffix(".half")
            half.write_text(json.dumps([asdict(each) for each in judgement.standing]))
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
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / f"{self._name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self._folder / f"{self._name}.json"


def standing_in(file: Path) -> list[Standing]:
    """What a file says stands; nothing where there is none, or where it cannot be read: then all begins anew."""
    try:
        told: list[dict[str, Any]] = json.loads(file.read_text())
        return [Standing(**each) for each in told]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError) as error:
        logger.warning("%s is damaged (%s): what stands is told anew", file, error)
        return []


def standing_in_all(folder: Path) -> list[Standing]:
    """All that stands or is about to, of persistence and of all jobs, the oldest first."""
    found = [each for file in folder.glob("*.json") for each in standing_in(file)]
    return sorted(found, key=lambda each: (each.since, each.key))
