"""The names of a module: their values, and the statements that define them."""

from __future__ import annotations

import ast
import linecache
import re
import sys
from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec, resolve_name
from types import ModuleType
from typing import Any

from springline.spark_jobs.code.code_tree import ModuleStatements, module_statements

MISSING = object()

# Calls that return another value in each process; `hash` and `id` are the builtins.
_CHANGING = re.compile(
    r"time\.(time|monotonic|perf_counter|process_time)(_ns)?|datetime\.(datetime|date)\.(now|utcnow|today)"
    r"|uuid\.uuid[14]|random\.(?!Random)\w+|secrets\.\w+|os\.(getpid|getppid|urandom)|tempfile\.mk\w+|hash|id"
)
_KEEPS_ORDER = frozenset({"list", "tuple", "iter", "next", "enumerate", "zip", "map", "filter", "reversed", "join"})
_IGNORES_ORDER = frozenset({"sorted", "set", "frozenset", "sum", "len", "min", "max", "any", "all", "bool"})


class ModuleScope:
    """The names of a module, with the statements that define them."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values
        self.name = str(values.get("__name__", ""))

    @cached_property
    def statements(self) -> ModuleStatements:
        """The statements of the module; none if its source cannot be read."""
        return module_statements("".join(linecache.getlines(str(self.values.get("__file__", "")), dict(self.values))))

    @property
    def package(self) -> str:
        """The package that relative imports start from."""
        return str(self.values.get("__package__") or self.name.rpartition(".")[0])

    def absolute(self, node: ast.ImportFrom) -> str:
        """Return the name of the module that an import names, perhaps relative to this one."""
        name = "." * node.level + (node.module or "")
        return resolve_name(name, self.package) if node.level else name

    def attribute(self, name: str) -> Any:
        """Return the value of a name, which may be a submodule that is not imported yet; `MISSING` if there is none."""
        value = self.values.get(name, MISSING)
        if value is MISSING and (module := sys.modules.get(self.name)) is not None:
            value = getattr(module, name, MISSING)
            if value is MISSING and "__path__" in self.values and find_spec(f"{self.name}.{name}"):
                value = import_module(f"{self.name}.{name}")
        return value

    def call_name(self, callee: ast.expr) -> str:
        """Return the full name of what a call calls, such as `datetime.datetime.now`; empty if it is defined here."""
        path: list[str] = []
        while isinstance(callee, ast.Attribute):
            path.insert(0, callee.attr)
            callee = callee.value
        if not isinstance(callee, ast.Name):
            return ""
        origin = next((f"{self.absolute(node)}.{other}" for node, other in self.statements.imports(callee.id)), "")
        value = self.values.get(callee.id, MISSING)
        if isinstance(value, ModuleType):
            origin = value.__name__
        return ".".join([origin or callee.id, *path]) if origin or value is MISSING else ""

    def changing_value(self, name: str) -> str:
        """Return why the value of a name is another in each process, and what to do; empty if nothing says so."""
        for expression in self.statements.values(name):
            for node in ast.walk(expression):
                if isinstance(node, ast.Call) and _CHANGING.fullmatch(called := self.call_name(node.func)):
                    return f"{called}() returns another value in each process; call it in the function"
            if self._has_order_of_set(expression):
                return "the order of the elements of a set is another in each process; sort them"
        return ""

    def _has_order_of_set(self, node: ast.AST) -> bool:
        """Return whether the value of an expression depends on the order of a set's elements."""
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in _IGNORES_ORDER:
                return any(
                    self._has_order_of_set(each) for argument in node.args for each in ast.iter_child_nodes(argument)
                )
            if called in _KEEPS_ORDER and any(self._is_set(each) for each in node.args):
                return True
        elif isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp):
            if any(self._is_set(each.iter) for each in node.generators):
                return True
        elif isinstance(node, ast.Starred) and self._is_set(node.value):
            return True
        return any(self._has_order_of_set(each) for each in ast.iter_child_nodes(node))

    def _is_set(self, node: ast.expr) -> bool:
        if isinstance(node, ast.BinOp):
            return self._is_set(node.left) or self._is_set(node.right)
        if isinstance(node, ast.Name):
            return isinstance(self.values.get(node.id), set | frozenset)
        if isinstance(node, ast.Call):
            return isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")
        return isinstance(node, ast.Set | ast.SetComp)
