"""Writes reference-python.md: every public name, its signature and its docstring.

`python -m docs.python_page MODULE` prints the description of one module, as JSON: a module that imports Airflow is
described in a separate process.
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

from docs.generated_parts import table, wrap_prose
from springline.persistence.profile import import_root

_ROOT = Path(__file__).resolve().parent.parent
PUBLIC = (
    "springline",
    "springline.errors",
    "springline.testing",
    "springline.stream_kinds",
    "springline.formats",
    "springline.airflow",
)
_HEADINGS = {"Args": "Arguments", "Attributes": "Attributes", "Returns": "Returns", "Yields": "Yields"}
_HEADINGS |= {"Raises": "Raises", "Example": "Example"}
_SECTION = re.compile(rf"^({'|'.join(_HEADINGS)}):$", re.MULTILINE)
_ENTRY = re.compile(r"^(\w+): ", re.MULTILINE)
_WIDE = 100  # characters of a signature on one line
_INTRO = """\
# Python

Every public name with its arguments, result and errors, under the module from which it is imported. The methods and
attributes of a class are public with it, except for those whose names begin with `_`. Every other module below
`springline` is private and may change. A name is imported on first use; if the package that it needs is not installed,
the error names the extra to install.

The examples assume `from springline import *` and `from springline.testing import *`; `folder` is the `pathlib.Path` of
an empty folder. Tests run all examples that begin with `>>>`.

`make docs` writes this page from the docstrings.
"""

Description = dict[str, Any]


class _Text:
    """A text that a signature shows without quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def python_page() -> str:
    """Return the whole page."""
    return "\n".join([_INTRO, *(_module(name, describe_in_process(name)) for name in PUBLIC)])


def describe_in_process(name: str) -> Description:
    """Describe a module, in a process with a separate Airflow home if the module needs Airflow."""
    if name != "springline.airflow":
        return describe_module(name)
    with TemporaryDirectory(prefix="springline-docs-") as home:
        process = subprocess.run(
            [sys.executable, "-m", "docs.python_page", name],
            env={**os.environ, "AIRFLOW_HOME": home, "PYTHONPATH": f"{import_root()}:{_ROOT}"},
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    description: Description = json.loads(process.stdout.splitlines()[-1])
    return description


def describe_module(name: str) -> Description:
    """Describe a module: its docstring, and the kind, signature and docstring of each public name."""
    module = import_module(name)
    return {
        "doc": inspect.getdoc(module) or "",
        "names": [_describe_name(module, each) for each in sorted(module.__all__)],
    }


def _describe_name(module: Any, name: str) -> Description:
    value = getattr(module, name)
    callable_ = inspect.isclass(value) or inspect.isroutine(value)
    doc = inspect.getdoc(value) if callable_ else _doc_of_value(import_module(_home(module, name)), name)
    description: Description = {"name": name, "callable": callable_, "doc": doc or ""}
    if module.__name__ == "springline.errors":
        return {**description, "above": value.__mro__[1].__name__, "callable": False}
    description["signature"] = (
        f"{name}{_signature(value)}" if callable_ else f"{name} = {pformat(value, sort_dicts=False)}"
    )
    description["members"] = list(_members(value)) if inspect.isclass(value) else []
    return description


def _home(module: Any, name: str) -> str:
    """Return the module from which a name is lazily imported."""
    return str(module._MODULES[name])


def _doc_of_value(module: Any, name: str) -> str:
    """Return the attribute docstring: the string below a value."""
    body = ast.parse(inspect.getsource(module)).body
    for here, below in pairwise(body):
        if isinstance(here, ast.AnnAssign) and isinstance(here.target, ast.Name) and here.target.id == name:
            text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else ""
            return inspect.cleandoc(str(text))
    return ""


def _members(described_class: type) -> Iterator[Description]:
    """Yield the public methods and properties of a class, including those of our base classes; tests are left out."""
    if issubclass(described_class, Enum):
        return
    names: dict[str, Any] = {}
    for each in described_class.__mro__:
        if each.__module__.startswith("springline."):
            names = {**vars(each), **names}
    for name, member in sorted(names.items()):
        member = getattr(member, "__func__", member)
        if name.startswith(("_", "test_")) or not inspect.getdoc(member) or hasattr(member, "_fixture_function"):
            continue
        if isinstance(member, property):
            yield {"signature": name, "doc": inspect.getdoc(member)}
        elif inspect.isfunction(member) and member.__module__.startswith("springline."):
            yield {
                "signature": f"{name}{_signature(getattr(described_class, name), bound=True)}",
                "doc": inspect.getdoc(member),
            }


def _signature(value: Any, *, bound: bool = False) -> str:
    if inspect.isclass(value) and issubclass(value, Enum):
        return "(value)"
    if inspect.isclass(value) and issubclass(value, BaseException):
        return ""
    if inspect.isclass(value) and issubclass(value, BaseSettings):
        return "(**settings: Any)"  # all of them are in settings.md
    signature = inspect.signature(value)
    parameters = [_parameter(each) for each in signature.parameters.values()]
    parameters = [each for each in parameters if not (bound and each.name == "self")]
    back = signature.return_annotation
    if isinstance(back, str) and not inspect.isclass(value):
        back = _Text(back)
    elif inspect.isclass(value) or back is None:
        back = inspect.Signature.empty
    text = str(signature.replace(parameters=parameters, return_annotation=back))
    if len(text) <= _WIDE or not parameters:
        return text
    lines = [str(each) for each in parameters]
    keywords = [each for each, one in enumerate(parameters) if one.kind is inspect.Parameter.KEYWORD_ONLY]
    if keywords and not any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters):
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


def _module(name: str, description: Description) -> str:
    errors = [each for each in description["names"] if "above" in each]
    own = [each for each in description["names"] if "above" not in each]
    parts = [f"## {name}\n", _doc(description["doc"])]
    parts += [_entry(each) for each in own]
    if errors:
        rows = [(f"`{each['name']}`", f"`{each['above']}`", _first(each["doc"])) for each in errors]
        parts.append(f"{table(('error', 'is a', 'when'), rows)}\n")
    return "\n".join(parts)


def _entry(description: Description) -> str:
    parts = [f"### {description['name']}\n", f"```python\n{description['signature']}\n```\n"]
    if description["doc"]:
        parts.append(_doc(description["doc"]))
    if description["members"]:
        parts.append("**Methods and properties**\n")
        parts.append("".join(f"- {_member(each)}\n" for each in description["members"]))
    return "\n".join(parts)


def _member(description: Description) -> str:
    signature = " ".join(description["signature"].split()).replace("( ", "(").replace(", )", ")")
    said = _SECTION.split(description["doc"])[0]
    return indent(wrap_prose(f"`{signature}`: {said}"), "  ").lstrip()


def _first(doc: str) -> str:
    return " ".join(doc.split("\n\n")[0].split())


def _doc(doc: str) -> str:
    """Render a docstring as Markdown: its paragraphs, then each of its sections under a heading."""
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
            parts.append(f"{wrap_prose(body)}\n")
    return "\n".join(parts)


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        if paragraph.startswith("    "):
            yield f"```text\n{dedent(paragraph).rstrip()}\n```\n"
        elif paragraph.strip():
            yield f"{wrap_prose(paragraph)}\n"


def _entries(body: str) -> str:
    """Render entries `name: description` as a list; indented lines continue an entry."""
    listed = (f"`{name}`: {text}" for name, text in _split_entries(body).items())
    return "".join(f"- {indent(wrap_prose(each), '  ').lstrip()}\n" for each in listed)


def section_entries(doc: str, section: str) -> dict[str, str]:
    """Return the entries of one section of a docstring, such as `Args`, by name."""
    _, *rest = _SECTION.split(doc)
    return _split_entries(dedent(dict(zip(rest[::2], rest[1::2], strict=True))[section]).strip("\n"))


def _split_entries(body: str) -> dict[str, str]:
    entries: dict[str, str] = {}
    name = ""
    for line in body.splitlines():
        if line[:1].strip() and (named := _ENTRY.match(line)):
            name = named[1]
            entries[name] = line[named.end() :]
        elif name:
            entries[name] += f" {line.strip()}"
    return entries


def _example(body: str) -> Iterator[str]:
    if ">>>" in body:
        yield f"```pycon\n{body}\n```\n"
        return
    said, _, code = body.partition("::\n")
    yield f"{wrap_prose(said)}:\n"
    yield f"```python\n{dedent(code.strip(chr(10))).rstrip()}\n```\n"


if __name__ == "__main__":
    print(json.dumps(describe_module(sys.argv[1])))
