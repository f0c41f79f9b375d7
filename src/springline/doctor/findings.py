"""Results of checks: ok, note or problem, with a remedy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class FindingState(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    NOTE = "note"  # for information; nothing that is configured needs it
    PROBLEM = "problem"  # something that is configured does not work without it


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; `remedy` is a sentence, or empty if nothing needs to be done."""

    check: str
    state: FindingState
    message: str
    remedy: str = ""

    def lines(self) -> list[str]:
        """Format the finding as text, one or two lines."""
        mark = {FindingState.OK: "ok     ", FindingState.NOTE: "note   ", FindingState.PROBLEM: "PROBLEM"}[self.state]
        return [f"{mark} {self.check}: {self.message}", *([f"        -> {self.remedy}"] if self.remedy else [])]


def ok(check: str, message: str) -> Finding:
    """Return a finding of state `OK`."""
    return Finding(check, FindingState.OK, message)


def note(check: str, message: str, remedy: str = "") -> Finding:
    """Return a finding of state `NOTE`: nothing that is configured needs it."""
    return Finding(check, FindingState.NOTE, message, remedy)


def problem(check: str, message: str, remedy: str) -> Finding:
    """Return a finding of state `PROBLEM`: something that is configured needs it."""
    return Finding(check, FindingState.PROBLEM, message, remedy)


def count_problems(findings: Iterable[Finding]) -> int:
    """Count the problems among the findings."""
    return sum(finding.state is FindingState.PROBLEM for finding in findings)
