"""Writes reference-python.md: every public name, its signature and its docstring.

`python -m docs.python_page MODULE` prints what is told of one module, as JSON: so one that imports Airflow is described
in a process of its own.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from pprint import pformat
from tempfile import TemporaryDirectory
from textwrap import dedent, indent
from typing import Any

from pydantic_settings import BaseSettings

from docs.marked import folded, table
from springline.persistence.profile import import_root

_ROOT = Path(__file__).resolve().parent.parent
PUBLIC = ("springline", "springline.errors", "springline.testing", "springline.stream_kinds", "springline.airflow")
_HEADINGS = {"Args": "Arguments", "Attributes": "Attributes", "Returns": "Returns", "Yields": "Yields"}
_HEADINGS |= {"Raises": "Raises", "Example": "Example"}
_SECTION = re.compile(rf"^({'|'.join(_HEADINGS)}):$", re.MULTILINE)
_ENTRY = re.compile(r"^(\w+): ", re.MULTILINE)
_WIDE = 100  # characters of a signature in one line
_INTRO = """\
# Python

Every public name, with what it takes, gives and raises. Import it from the module under whose heading it stands; a
class's methods and attributes are public with it, but for those whose names begin with `_`. Whatever else is imported
from below `springline` is private and may change. Each is imported when it is asked for, and names the extra of the
package that it needs where that is not installed.

In the examples, `from springline import *` and `from springline.testing import *` came before, and `folder` is the
`pathlib.Path` of an empty folder; tests run all that begin with `>>>`.

This page is written by `make docs`; edit the docstrings instead.
"""

Told = dict[str, Any]


class _Text:
    """What a signature shows as it stands."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def python_page() -> str:
    """The whole page."""
    return "\n".join([_INTRO, *(_module(name, described_apart(name)) for name in PUBLIC)])


def described_apart(name: str) -> Told:
    """What is told of a module, by a process with an Airflow home of its own where the module needs Airflow."""
    if name != "springline.airflow":
        return described(name)
    with TemporaryDirectory(prefix="springline-docs-") as home:
        done = subprocess.run(
            [sys.executable, "-m", "docs.python_page", name],
            env={**os.environ, "AIRFLOW_HOME": home, "PYTHONPATH": f"{import_root()}:{_ROOT}"},
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    told: Told = json.loads(done.stdout.splitlines()[-1])
    return told


def described(name: str) -> Told:
    """What is told of a module: its docstring, and of each public name the kind, the signature, the docstring."""
    module = import_module(name)
    return {"doc": inspect.getdoc(module) or "", "names": [_name(module, each) for each in sorted(module.__all__)]}


def _name(module: Any, name: str) -> Told:
    found = getattr(module, name)
    callable_ = inspect.isclass(found) or inspect.isroutine(found)
    doc = inspect.getdoc(found) if callable_ else _doc_of_value(import_module(_home(module, name)), name)
    told: Told = {"name": name, "callable": callable_, "doc": doc or ""}
    if module.__name__ == "springline.errors":
        return {**told, "above": found.__mro__[1].__name__, "callable": False}
    told["signature"] = f"{name}{_signature(found)}" if callable_ else f"{name} = {pformat(found, sort_dicts=False)}"
    told["members"] = list(_members(found)) if inspect.isclass(found) else []
    return told


def _home(module: Any, name: str) -> str:
    """The module that a name is imported from when it is asked for."""
    return str(module._MODULES[name])


def _doc_of_value(module: Any, name: str) -> str:
    """The text that stands below a value."""
    body = ast.parse(inspect.getsource(module)).body
    for here, below in pairwise(body):
        if isinstance(here, ast.AnnAssign) and isinstance(here.target, ast.Name) and here.target.id == name:
            text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else ""
            return inspect.cleandoc(str(text))
    return ""


def _members(found: type) -> Iterator[Told]:
    """The methods and properties that a class has of its own or from our classes above it; tests are left out."""
    if issubclass(found, Enum):
        return
    names: dict[str, Any] = {}
    for each in found.__mro__:
        if each.__module__.startswith("springline."):
            names = {**vars(each), **names}
    for name, member in sorted(names.items()):
        member = getattr(member, "__func__", member)
        if name.startswith(("_", "test_")) or not inspect.getdoc(member) or hasattr(member, "_fixture_function"):
            continue
        if isinstance(member, property):
            yield {"signature": name, "doc": inspect.getdoc(member)}
        elif inspect.isfunction(member) and member.__module__.startswith("springline."):
            yield {"signature": f"{name}{_signature(getattr(found, name), bound=True)}", "doc": inspect.getdoc(member)}


def _signature(found: Any, *, bound: bool = False) -> str:
    if inspect.isclass(found) and issubclass(found, Enum):
        return "(value)"
    if inspect.isclass(found) and issubclass(found, BaseException):
        return ""
    if inspect.isclass(found) and issubclass(found, BaseSettings):
        return "(**settings: Any)"  # settings.md has them all
    signature = inspect.signature(found)
    given = [_parameter(each) for each in signature.parameters.values()]
    given = [each for each in given if not (bound and each.name == "self")]
    back = signature.return_annotation
    if isinstance(back, str) and not inspect.isclass(found):
        back = _Text(back)
    elif inspect.isclass(found) or back is None:
        back = inspect.Signature.empty
    text = str(signature.replace(parameters=given, return_annotation=back))
    if len(text) <= _WIDE or not given:
        return text
    lines = [str(each) for each in given]
    keywords = [each for each, one in enumerate(given) if one.kind is inspect.Parameter.KEYWORD_ONLY]
    if keywords and not any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in given):
        lines.insert(keywords[0], "*")
    end = "" if back is inspect.Signature.empty else f" -> {back!r}"
    rows = "".join(f"    {line},\n" for line in lines)
    return f"(\n{rows}){end}"


def _parameter(each: inspect.Parameter) -> inspect.Parameter:
    annotation, default = each.annotation, each.default
    if isinstance(annotation, str):
        annotation = _Text(annotation)
    if isinstance(default, Enum):
        default = _Text(f"{type(default).__name__}.{default.name}")
    elif inspect.isfunction(default):
        default = _Text(default.__name__)
    elif default is not inspect.Parameter.empty and not isinstance(default, str | int | float | tuple | type(None)):
        text = repr(default)
        default = _Text(f"{type(default).__name__}()" if text.startswith(type(default).__name__) else "…")
    return each.replace(annotation=annotation, default=default)


def _module(name: str, told: Told) -> str:
    errors = [each for each in told["names"] if "above" in each]
    own = [each for each in told["names"] if "above" not in each]
    parts = [f"## {name}\n", _doc(told["doc"])]
    parts += [_entry(each) for each in own]
    if errors:
        rows = [(f"`{each['name']}`", f"`{each['above']}`", _first(each["doc"])) for each in errors]
        parts.append(f"{table(('error', 'is a', 'when'), rows)}\n")
    return "\n".join(parts)


def _entry(told: Told) -> str:
    parts = [f"### {told['name']}\n", f"```python\n{told['signature']}\n```\n"]
    if told["doc"]:
        parts.append(_doc(told["doc"]))
    if told["members"]:
        parts.append("**Methods and properties**\n")
        parts.append("".join(f"- {_member(each)}\n" for each in told["members"]))
    return "\n".join(parts)


def _member(told: Told) -> str:
    signature = " ".join(told["signature"].split()).replace("( ", "(").replace(", )", ")")
    said = _SECTION.split(told["doc"])[0]
    return indent(folded(f"`{signature}`: {said}"), "  ").lstrip()


def _first(doc: str) -> str:
    return " ".join(doc.split("\n\n")[0].split())


def _doc(doc: str) -> str:
    """A docstring as Markdown: its paragraphs, then each of its sections under a heading of its own."""
    head, *rest = _SECTION.split(doc)
    parts = list(_paragraphs(head))
    for section, text in zip(rest[::2], rest[1::2], strict=True):
        parts.append(f"**{_HEADINGS[section]}**\n")
        body = dedent(text).strip("\n")
        if section == "Example":
            parts += _example(body)
        elif _ENTRY.match(body):
            parts.append(_entries(body))
        else:
            parts.append(f"{folded(body)}\n")
    return "\n".join(parts)


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        if paragraph.startswith("    "):
            yield f"```text\n{dedent(paragraph).rstrip()}\n```\n"
        elif paragraph.strip():
            yield f"{folded(paragraph)}\n"


def _entries(body: str) -> str:
    """`name: what it is` for each, as a list; what is indented goes on."""
    found: list[str] = []
    for line in body.splitlines():
        if line[:1].strip() and (named := _ENTRY.match(line)):
            found.append(f"`{named[1]}`: {line[named.end() :]}")
        elif found:
            found[-1] += f" {line.strip()}"
    return "".join(f"- {indent(folded(each), '  ').lstrip()}\n" for each in found)


def _example(body: str) -> Iterator[str]:
    if ">>>" in body:
        yield f"```pycon\n{body}\n```\n"
        return
    said, _, code = body.partition("::\n")
    yield f"{folded(said)}:\n"
    yield f"```python\n{dedent(code.strip(chr(10))).rstrip()}\n```\n"


if __name__ == "__main__":
    print(json.dumps(described(sys.argv[1])))
