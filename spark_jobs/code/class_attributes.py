"""The attributes of a class that count as its code, without those that Python or a decorator derives from them."""

from __future__ import annotations

import ast
import enum
import linecache
from types import FunctionType
from typing import Any

_DERIVED = frozenset(
    {"__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__abstractmethods__",
     "_abc_impl", "__parameters__", "__firstlineno__", "__static_attributes__", "__dataclass_params__"}
)  # fmt: skip


def attributes_of(cls: type, tree: ast.ClassDef | None) -> list[tuple[str, Any]]:
    """Return the attributes of `cls` by name; `tree` is its class statement, None if a call made it."""
    members: dict[str, Any] = dict(cls.__members__) if issubclass(cls, enum.Enum) else {}
    defined = defined_names(tree) if tree else set()
    attributes = {
        name: value
        for name, value in vars(cls).items()
        if name not in _DERIVED and not _is_generated(cls, value)
        if name == "__dataclass_fields__" or name in defined or not _is_hidden(name, tree, members)
    }
    return sorted({**attributes, **members}.items())


def defined_names(tree: ast.ClassDef) -> set[str]:
    """Return the names that a class statement defines."""
    return {
        name
        for statement in tree.body
        for name in (
            {statement.name}
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            else {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        )
    }


def _is_hidden(name: str, tree: ast.ClassDef | None, members: dict[str, Any]) -> bool:
    """Return whether an attribute that the class statement does not contain is derived from it."""
    if members:
        return True
    return tree is not None and name.startswith("__") and name.endswith("__")


def _is_generated(cls: type, value: Any) -> bool:
    """Return whether a method was generated from the fields of a dataclass or named tuple, which count themselves."""
    if not isinstance(value, FunctionType) or linecache.getlines(value.__code__.co_filename):
        return False
    return hasattr(cls, "_fields") or hasattr(cls, "__dataclass_fields__")
