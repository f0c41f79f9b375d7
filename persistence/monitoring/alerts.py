"""Alerts: evaluates the rules on samples, keeps active alerts in a file, logs each start and each end once."""

from __future__ import annotations

import fcntl
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from springline.persistence.errors import DecodeError
from springline.persistence.model.codec import Codec
from springline.persistence.monitoring.metric import MetricSample, MetricsReporter
from springline.persistence.monitoring.metrics import ALERT
from springline.persistence.monitoring.rules import ActiveAlert, AlertEvaluation, AlertRule, Severity, evaluate_rules
from springline.persistence.private_files import create_private_folder

_LOG_LEVELS = {Severity.CRITICAL: logging.ERROR, Severity.WARNING: logging.WARNING, Severity.INFO: logging.INFO}

logger = logging.getLogger("springline.alerts")


@dataclass(frozen=True)
class AlertState:
    """Active alerts of one subject; which rules were evaluated, when (seconds since 1970), and by whom."""

    active_alerts: tuple[ActiveAlert, ...] = ()
    rules: tuple[str, ...] = ()
    evaluated_at: float = 0.0
    actor: str = ""


_STATES: Codec[AlertState] = Codec(AlertState, 2, "the state of the alerts", "the alerts start from scratch")


class AlertEvaluator:
    """Evaluates the alerts of one subject, persistence or a job; `name` is the name of its file in `folder`.

    Several processes may take turns as the same `actor`: the state is in the file, locked by one at a time.
    """

    def __init__(self, folder: Path, name: str, *, actor: str) -> None:
        self._folder = folder
        self._name = name
        self._actor = actor

    def evaluate(
        self, rules: Sequence[AlertRule], samples: Sequence[MetricSample], metrics_reporter: MetricsReporter, now: float
    ) -> AlertEvaluation:
        """Evaluate once at `now` (seconds since 1970); log new and resolved alerts, report active ones."""
        with self._locked_file() as file:
            evaluation = evaluate_rules(rules, samples, read_state(file).active_alerts, now)
            state = AlertState(evaluation.active_alerts, tuple(rule.name for rule in rules), now, self._actor)
            temporary = file.with_suffix(".half")
            temporary.write_bytes(_STATES.encode(state))
            temporary.replace(file)
        for new_alert in evaluation.new_alerts:
            log_level = _LOG_LEVELS[Severity(new_alert.severity)]
            logger.log(
                log_level, "alert firing or pending: %s: %s (%g)", new_alert.key, new_alert.summary, new_alert.value
            )
        for resolved_alert in evaluation.resolved_alerts:
            logger.info("alert resolved: %s, after %.0f s", resolved_alert.key, now - resolved_alert.since)
        for rule in rules:
            count = sum(each.rule == rule.name and each.is_firing for each in evaluation.active_alerts)
            metrics_reporter.report(ALERT, count, rule=rule.name, severity=rule.severity.value)
        return evaluation

    @contextmanager
    def _locked_file(self) -> Iterator[Path]:
        create_private_folder(self._folder)
        with (self._folder / f"{self._name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self._folder / f"{self._name}.json"


def read_state(file: Path) -> AlertState:
    """Read the state from a file; empty if it is missing or cannot be read: then all alerts start again."""
    try:
        return _STATES.decode(file.read_bytes(), str(file))
    except FileNotFoundError:
        return AlertState()
    except DecodeError as error:
        logger.warning("%s: the alerts start from scratch", error)
        return AlertState()


def read_states(folder: Path) -> list[AlertState]:
    """Read the states of persistence and of all jobs that were evaluated."""
    states = [read_state(file) for file in sorted(folder.glob("*.json"))]
    return [state for state in states if state.rules]


def list_active_alerts(states: Iterable[AlertState]) -> list[ActiveAlert]:
    """Return all firing and pending alerts, oldest first."""
    return sorted((each for state in states for each in state.active_alerts), key=lambda each: (each.since, each.key))
