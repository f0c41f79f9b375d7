"""The version of an operation's code: a hash over what the code says, not over how it is laid out.

Hashed are the syntax trees of the function and of every function, class and constant of this project that it
refers to, directly or through others. Comments, docstrings, formatting and the annotations of functions do not
count; libraries count by name only (that their upgrade changes a result, the digests find out). So does what this
platform has beside its Spark jobs. It does not matter where a package lies: in a folder, or installed.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import hashlib
import inspect
import linecache
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

from springline.spark_jobs.code.code_tree import binding, canonical, stripped, tree_of_class, trees_of
from springline.spark_jobs.code.library_folders import library_folder

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
_MISSING = object()
_ROOT = "springline"
_OWN = "springline.spark_jobs"


def code_version(function: Callable[..., Any], *, declared: object = ()) -> str:
    """The version of `function`, 16 hexadecimal digits; the repr of `declared` is hashed with it.

    Raises `CodeVersionError` where a source that counts cannot be read.
    """
    reader = _Reader(package=_package(function.__module__))
    reader.read_function(function)
    while reader.waiting:
        reader.waiting.pop()()
    lines = [repr(declared), *sorted(reader.texts.values())]
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()


class _Reader:
    """Collects the canonical text of whatever the code of `package` refers to, once each."""

    def __init__(self, package: str) -> None:
        self.texts: dict[object, str] = {}
        self.waiting: list[Callable[[], None]] = []
        self._packages = {package, _OWN}

    def read_function(self, function: Any) -> None:
        """Take in a function's tree and queue what it refers to."""
        inner = inspect.unwrap(function)
        if inner is not function:  # a wrapper, maybe a library's, around a function of ours
            self._say(inner)
        if not isinstance(function, FunctionType) or function.__code__ in self.texts:
            return
        code = function.__code__
        if self._is_ours(function.__module__, code.co_filename):
            self.texts[code] = ""  # before its references, which may lead back here
            label = f"{function.__module__}:{function.__qualname__}"
            self._take(code, label, trees_of(code), {**function.__globals__, **dict(_closure(function))})

    def _read_class(self, cls: type) -> None:
        module = sys.modules.get(cls.__module__)
        if module and cls not in self.texts and self._is_ours(cls.__module__, getattr(module, "__file__", "")):
            self.texts[cls] = ""
            self._take(cls, f"{cls.__module__}:{cls.__qualname__}", [tree_of_class(cls)], vars(module))

    def _read_constant(self, module: ModuleType, name: str) -> str:
        """Take in the expression that made a constant, for values whose own text would say nothing of them."""
        path = getattr(module, "__file__", None)
        if not path or not self._is_ours(module.__name__, path):
            return ""
        found = binding(ast.parse("".join(linecache.getlines(path))), name)
        if isinstance(found, tuple):
            return self._read_constant(import_module(found[0]), found[1])
        label = f"{module.__name__}:{name}="
        if found is not None and label not in self.texts:
            self.texts[label] = ""
            self._take(label, label, [found], vars(module))
        return label

    def _take(self, key: object, label: str, trees: list[ast.AST], scope: Mapping[str, Any]) -> None:
        lines = [label]
        for tree in trees:
            bare = stripped(tree, drop=lambda decorator: _declares(decorator, scope))
            within = {**scope, **dict(self._imported(bare))}
            lines.append(canonical(bare))
            lines += (f"{name}={self._say(value, name, scope)}" for name, value in _references(bare, within))
        self.texts[key] = "\n".join(lines)

    def _say(self, value: Any, name: str = "", scope: Mapping[str, Any] | None = None) -> str:
        """The text of what a name stands for; functions and classes are queued and stand by name."""
        if isinstance(value, _PLAIN):
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, ModuleType):
            return f"module {value.__name__}"
        if isinstance(value, MethodType):
            return self._say(value.__func__)
        if isinstance(value, functools.partial):
            return f"partial {self._say((value.func, value.args, value.keywords), name, scope)}"
        if isinstance(value, type):
            self.waiting.append(lambda: self._read_class(value))
            return f"class {value.__module__}:{value.__qualname__}"
        if isinstance(value, FunctionType) or hasattr(value, "__wrapped__"):
            self.waiting.append(lambda: self.read_function(value))
            return f"function {value.__module__}:{value.__qualname__}"
        return self._say_constant(value, name, scope or {})

    def _say_constant(self, value: Any, name: str, scope: Mapping[str, Any]) -> str:
        say = functools.partial(self._say, name=name, scope=scope)
        if isinstance(value, enum.Enum):
            return f"{say(type(value))}.{value.name}"
        if isinstance(value, re.Pattern):
            return f"pattern {value.pattern!r} {value.flags}"
        if isinstance(value, tuple | list):
            return f"{type(value).__name__}[{', '.join(map(say, value))}]"
        if isinstance(value, set | frozenset):
            return f"set[{', '.join(sorted(map(say, value)))}]"
        if isinstance(value, Mapping):
            return f"mapping[{', '.join(f'{say(k)}: {say(v)}' for k, v in value.items())}]"
        if dataclasses.is_dataclass(value):
            fields = (f"{field.name}={say(getattr(value, field.name))}" for field in dataclasses.fields(value))
            return f"{say(type(value))}({', '.join(fields)})"
        module = sys.modules.get(str(scope.get("__name__", "")))
        made = self._read_constant(module, name) if module and name else ""
        return f"{type(value).__module__}:{type(value).__qualname__} {made}"

    def _imported(self, tree: ast.AST) -> Iterator[tuple[str, Any]]:
        """The names that imports inside `tree` bind to code of ours; a library is not imported for its name."""
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level and self._is_importable(node.module):
                module = import_module(node.module)
                for alias in node.names:
                    yield alias.asname or alias.name, getattr(module, alias.name, _MISSING)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if self._is_importable(alias.name):
                        module, top = import_module(alias.name), alias.name.partition(".")[0]
                        yield (alias.asname, module) if alias.asname else (top, sys.modules[top])

    def _is_importable(self, module: str) -> bool:
        spec = find_spec(_package(module))
        return spec is not None and self._is_ours(module, spec.origin)

    def _is_ours(self, module: str, file: str | None) -> bool:
        path = Path(file or "").resolve()
        if not path.is_file():
            return _package(module) in self._packages
        # A library's wrapper borrows the module's name of what it wraps; its file tells.
        if (own := _package_of_platform(path)) is not None:
            return own in self._packages
        if (folder := library_folder(path)) is not None:
            return _package(".".join(path.relative_to(folder).with_suffix("").parts)) in self._packages
        return True


def _package_of_platform(path: Path) -> str | None:
    """The package of this platform that a file belongs to: in the checkout, their folders lie apart."""
    for name, folder in _platform_folders().items():
        if path.is_relative_to(folder):
            return name
    return None


@functools.cache
def _platform_folders() -> dict[str, Path]:
    """The folders of this platform's packages, by name, the innermost first."""
    root = Path(__file__).absolute().parents[2]  # not resolved: the folders of the package are links in the checkout
    inner = {f"{_ROOT}.{each.name}": each.resolve() for each in root.iterdir() if each.is_dir()}
    return {**inner, _ROOT: root.resolve()}


def _references(tree: ast.AST, scope: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """What the names in `tree` stand for in `scope`, with `module.name` followed into the module."""
    found: dict[str, Any] = {}
    for node in ast.walk(tree):
        path: list[str] = []
        while isinstance(node, ast.Attribute):
            path.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in scope:
            name, value = node.id, scope[node.id]
            while isinstance(value, ModuleType) and path:
                found[name] = value
                name, value = f"{name}.{path[-1]}", getattr(value, path.pop(), _MISSING)
            found[name] = value
    return [(name, value) for name, value in sorted(found.items(), key=lambda item: item[0]) if value is not _MISSING]


def _closure(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not bound yet
            continue


def _declares(decorator: ast.expr, scope: Mapping[str, Any]) -> bool:
    """Whether `decorator` declares an operation: what it says is no code."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
        value = getattr(scope.get(called.value.id), called.attr, None)
    else:
        value = scope.get(called.id) if isinstance(called, ast.Name) else None
    return getattr(value, "declares_operations", False) is True


def _package(module: str) -> str:
    """The package that a module belongs to; those of Springline are one each."""
    return ".".join(module.split(".")[: 2 if module.startswith(f"{_ROOT}.") else 1])
