"""Runs the examples of the documents, and updates their output if it has changed.

A fence that opens with ```` ```console ```` contains commands after `$ ` and their output; a line `…` matches any
lines. One that opens with ```` ```python words.py ```` is a file of that name, of any type, which is created before the
first command.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

_ROOT = Path(__file__).resolve().parent.parent
_FENCE = re.compile(r"^```(?P<kind>\w+)(?: (?P<name>\S+))?\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_NEXT = "\x1e"  # printed before each command; occurs nowhere else
_BROKEN = "Traceback (most recent call last)"
_LONGEST = 110  # characters of a line of prose
_WORKER = (re.compile(r"\b(persister|writer) \S+?:\d+"), r"\1 host:4711")
_DIFFERS = (  # what differs between runs
    _WORKER,
    (re.compile(r"\b(process|Code version) \w+"), r"\1 #"),
    (re.compile(r"(line through|median rate of|median of) [^)]* measurements?[^)]*"), "history"),
    (re.compile(r"\+ *[\d.]+ s\b"), "+#"),
    (re.compile(r"(?<![\w@-])[\d.,]+ min [\d.,]+ s\b"), "#"),
    (re.compile(r"(?<![\w@-])[\d.,]+ (ms|s|min|h|days|B|kB|MB|GB)\b"), "#"),
)


class BrokenExampleError(Exception):
    """A command of a document ended with an unintended error."""


@dataclass(frozen=True)
class Example:
    """A command of a document, and its output according to the document."""

    command: str
    output: str


def files_in(text: str) -> dict[str, str]:
    """Return the files that a document shows, by name."""
    return {fence["name"]: fence["body"] for fence in _FENCE.finditer(text) if fence["name"]}


def examples_in(text: str) -> list[Example]:
    """Return the commands of a document, in its order."""
    return [
        example for fence in _FENCE.finditer(text) if fence["kind"] == "console" for example in _split(fence["body"])
    ]


def outputs_of(text: str, folder: Path, environment: Mapping[str, str], *, seconds: float | None = None) -> list[str]:
    """Return the output of a document's commands, run one after another by one shell in `folder`.

    Raises `subprocess.TimeoutExpired`, with the output so far, if they take more than `seconds`.
    """
    for name, content in files_in(text).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    script = "".join(f"printf '{_NEXT}'\n{example.command}\n" for example in examples_in(text))
    base_environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("SPRINGLINE_", "AIRFLOW"))
    }
    process = subprocess.run(
        ["bash", "-c", f"exec 2>&1\n{script}"],
        cwd=folder,
        env={
            **base_environment,
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
            "PYTHONPATH": f"{folder}:{_ROOT / 'src'}",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    return process.stdout.split(_NEXT)[1:]


def outputs_match(expected: str, printed: str) -> bool:
    """Whether a document shows the output that was printed; durations, sizes and white space may differ."""
    pattern = ".*".join(re.escape(_normalized(part)) for part in re.split(r"^…$", expected, flags=re.MULTILINE))
    return re.fullmatch(pattern, _normalized(printed), flags=re.DOTALL) is not None


def correct_outputs(text: str, printed: Sequence[str]) -> str:
    """Return the document with the printed output instead of the shown one, where they do not match.

    Raises `BrokenExampleError` for a command that ended with a traceback: its output is no example.
    """
    for example, output in zip(examples_in(text), printed, strict=True):
        if _BROKEN in output:
            raise BrokenExampleError(f"$ {example.command}\n{output}")
    outputs = iter(printed)

    def correct(fence: re.Match[str]) -> str:
        if fence["kind"] != "console":
            return fence[0]
        lines = []
        for example in _split(fence["body"]):
            now = next(outputs, "")
            shown_output = example.output if outputs_match(example.output, now) else _tidy(now)
            lines.append(f"$ {example.command}\n{shown_output}")
        return f"```console\n{''.join(lines)}```"

    return _FENCE.sub(correct, text)


def _split(body: str) -> list[Example]:
    commands = re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]
    return [Example(command, output) for command, _, output in (each.partition("\n") for each in commands)]


def _normalized(text: str) -> str:
    text = re.sub(r"\s+", " ", text)
    for pattern, instead in _DIFFERS:
        text = pattern.sub(instead, text)
    return text.replace(" ", "")


def _tidy(printed: str) -> str:
    named = _WORKER[0].sub(_WORKER[1], printed)
    lines = [folded for line in named.splitlines() for folded in _folded(line.rstrip())]
    return "".join(f"{line}\n" for line in lines)


def _folded(line: str) -> list[str]:
    """Wrap a long line of prose; tables are unchanged."""
    if len(line) <= _LONGEST or re.search(r"\S {3,}\S", line):
        return [line]
    indent = re.match(r" *", line)[0]  # type: ignore[index]
    return wrap(line, _LONGEST, subsequent_indent=indent, break_long_words=False)
