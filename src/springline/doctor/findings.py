"""What a check tells: whether a thing is well, and where it is not, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How a thing is."""

    OK = "ok"
    NOTE = "note"  # worth knowing; nothing that is asked for needs it
    PROBLEM = "problem"  # something that is asked for does not work without it


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check tells of one thing; the remedy is a sentence, empty where nothing is to be done."""

    check: str
    state: State
    message: str
    remedy: str = ""

    def lines(self) -> list[str]:
        """For a person."""
        mark = {State.OK: "ok     ", State.NOTE: "note   ", State.PROBLEM: "PROBLEM"}[self.state]
        return [f"{mark} {self.check}: {self.message}", *([f"        -> {self.remedy}"] if self.remedy else [])]


def ok(check: str, message: str) -> Finding:
    """The thing is well."""
    return Finding(check, State.OK, message)


def note(check: str, message: str, remedy: str = "") -> Finding:
    """Nothing that is asked for needs the thing."""
    return Finding(check, State.NOTE, message, remedy)


def problem(check: str, message: str, remedy: str) -> Finding:
    """Something that is asked for needs the thing."""
    return Finding(check, State.PROBLEM, message, remedy)


def problems(findings: Iterable[Finding]) -> int:
    """How many are problems."""
    return sum(finding.state is State.PROBLEM for finding in findings)
