"""The version of an operation's code: a hash of the code's content, independent of its layout.

The hash covers the syntax trees of the function and of every function, class and constant of this project that it
refers to, directly or indirectly. Comments, docstrings, formatting and annotations of functions are ignored. Libraries
are hashed by name only (if an upgrade changes a result, the digest shows it), and so are the parts of this platform
other than its Spark jobs. It does not matter whether a package is installed or lies in a folder.
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

from springline.spark_jobs.code.code_tree import binding, canonical_text, strip_tree, tree_of_class, trees_of
from springline.spark_jobs.code.library_folders import library_folder

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
_MISSING = object()
_ROOT = "springline"
_OWN = "springline.spark_jobs"


def code_version(function: Callable[..., Any], *, declaration: object = ()) -> str:
    """Compute the version of `function`, 16 hexadecimal digits; the repr of `declaration` is included in the hash.

    Raises `CodeVersionError` if a source that is to be hashed cannot be read.
    """
    reader = _CodeCollector(package=_package(function.__module__))
    reader.read_function(function)
    while reader.pending:
        reader.pending.pop()()
    lines = [repr(declaration), *sorted(reader.texts.values())]
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()


class _CodeCollector:
    """Collects the canonical text of everything that the code of `package` refers to, once each."""

    def __init__(self, package: str) -> None:
        self.texts: dict[object, str] = {}
        self.pending: list[Callable[[], None]] = []
        self._packages = {package, _OWN}

    def read_function(self, function: Any) -> None:
        """Add a function's tree, and queue what it refers to."""
        inner = inspect.unwrap(function)
        if inner is not function:  # a wrapper, possibly of a library, around a function of this project
            self._describe(inner)
        if not isinstance(function, FunctionType) or function.__code__ in self.texts:
            return
        code = function.__code__
        if self._is_ours(function.__module__, code.co_filename):
            self.texts[code] = ""  # before its references, which may be recursive
            label = f"{function.__module__}:{function.__qualname__}"
            self._add_text(code, label, trees_of(code), {**function.__globals__, **dict(_closure(function))})

    def _read_class(self, cls: type) -> None:
        module = sys.modules.get(cls.__module__)
        if module and cls not in self.texts and self._is_ours(cls.__module__, getattr(module, "__file__", "")):
            self.texts[cls] = ""
            self._add_text(cls, f"{cls.__module__}:{cls.__qualname__}", [tree_of_class(cls)], vars(module))

    def _read_constant(self, module: ModuleType, name: str) -> str:
        """Add the expression that defines a constant, for values whose own text does not identify them."""
        path = getattr(module, "__file__", None)
        if not path or not self._is_ours(module.__name__, path):
            return ""
        bound_value = binding(ast.parse("".join(linecache.getlines(path))), name)
        if isinstance(bound_value, tuple):
            return self._read_constant(import_module(bound_value[0]), bound_value[1])
        label = f"{module.__name__}:{name}="
        if bound_value is not None and label not in self.texts:
            self.texts[label] = ""
            self._add_text(label, label, [bound_value], vars(module))
        return label

    def _add_text(self, key: object, label: str, trees: list[ast.AST], scope: Mapping[str, Any]) -> None:
        lines = [label]
        for tree in trees:
            stripped_tree = strip_tree(tree, drop=lambda decorator: _declares_operation(decorator, scope))
            inner_scope = {**scope, **dict(self._imported_names(stripped_tree))}
            lines.append(canonical_text(stripped_tree))
            lines += (
                f"{name}={self._describe(value, name, scope)}"
                for name, value in _references(stripped_tree, inner_scope)
            )
        self.texts[key] = "\n".join(lines)

    def _describe(self, value: Any, name: str = "", scope: Mapping[str, Any] | None = None) -> str:
        """Return the text of the value of a name; functions and classes are queued, and represented by name."""
        if isinstance(value, _PLAIN):
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, ModuleType):
            return f"module {value.__name__}"
        if isinstance(value, MethodType):
            return self._describe(value.__func__)
        if isinstance(value, functools.partial):
            return f"partial {self._describe((value.func, value.args, value.keywords), name, scope)}"
        if isinstance(value, type):
            self.pending.append(lambda: self._read_class(value))
            return f"class {value.__module__}:{value.__qualname__}"
        if isinstance(value, FunctionType) or hasattr(value, "__wrapped__"):
            self.pending.append(lambda: self.read_function(value))
            return f"function {value.__module__}:{value.__qualname__}"
        return self._describe_constant(value, name, scope or {})

    def _describe_constant(self, value: Any, name: str, scope: Mapping[str, Any]) -> str:
        describe = functools.partial(self._describe, name=name, scope=scope)
        if isinstance(value, enum.Enum):
            return f"{describe(type(value))}.{value.name}"
        if isinstance(value, re.Pattern):
            return f"pattern {value.pattern!r} {value.flags}"
        if isinstance(value, tuple | list):
            return f"{type(value).__name__}[{', '.join(map(describe, value))}]"
        if isinstance(value, set | frozenset):
            return f"set[{', '.join(sorted(map(describe, value)))}]"
        if isinstance(value, Mapping):
            return f"mapping[{', '.join(f'{describe(k)}: {describe(v)}' for k, v in value.items())}]"
        if dataclasses.is_dataclass(value):
            fields = (f"{field.name}={describe(getattr(value, field.name))}" for field in dataclasses.fields(value))
            return f"{describe(type(value))}({', '.join(fields)})"
        module = sys.modules.get(str(scope.get("__name__", "")))
        label = self._read_constant(module, name) if module and name else ""
        return f"{type(value).__module__}:{type(value).__qualname__} {label}"

    def _imported_names(self, tree: ast.AST) -> Iterator[tuple[str, Any]]:
        """Yield the names that imports inside `tree` bind to code of this project; libraries are not imported."""
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
        # A library's wrapper copies the module name of the function that it wraps, so its file decides.
        if (own := _package_of_platform(path)) is not None:
            return own in self._packages
        if (folder := library_folder(path)) is not None:
            return _package(".".join(path.relative_to(folder).with_suffix("").parts)) in self._packages
        return True


def _package_of_platform(path: Path) -> str | None:
    """Return the package of this platform that a file belongs to; in the checkout, they are in separate folders."""
    for name, folder in _platform_folders().items():
        if path.is_relative_to(folder):
            return name
    return None


@functools.cache
def _platform_folders() -> dict[str, Path]:
    """Return the folders of this platform's packages by name, innermost first."""
    root = Path(__file__).absolute().parents[2]  # not resolved: the folders of the package are links in the checkout
    inner = {f"{_ROOT}.{each.name}": each.resolve() for each in root.iterdir() if each.is_dir()}
    return {**inner, _ROOT: root.resolve()}


def _references(tree: ast.AST, scope: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the values of the names in `tree` in `scope`; `module.name` is resolved in the module."""
    values: dict[str, Any] = {}
    for node in ast.walk(tree):
        path: list[str] = []
        while isinstance(node, ast.Attribute):
            path.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in scope:
            name, value = node.id, scope[node.id]
            while isinstance(value, ModuleType) and path:
                values[name] = value
                name, value = f"{name}.{path[-1]}", getattr(value, path.pop(), _MISSING)
            values[name] = value
    return [(name, value) for name, value in sorted(values.items(), key=lambda item: item[0]) if value is not _MISSING]


def _closure(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not bound yet
            continue


def _declares_operation(decorator: ast.expr, scope: Mapping[str, Any]) -> bool:
    """Return whether `decorator` declares an operation; its arguments are not part of the code."""
    callee = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(callee, ast.Attribute) and isinstance(callee.value, ast.Name):
        value = getattr(scope.get(callee.value.id), callee.attr, None)
    else:
        value = scope.get(callee.id) if isinstance(callee, ast.Name) else None
    return getattr(value, "declares_operations", False) is True


def _package(module: str) -> str:
    """Return the package that a module belongs to; each subpackage of Springline counts as one."""
    return ".".join(module.split(".")[: 2 if module.startswith(f"{_ROOT}.") else 1])
