"""Syntax trees of source code, stripped of everything that does not affect its behaviour."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable
from types import CodeType

from springline.spark_jobs.errors import CodeVersionError


def trees_of(code: CodeType) -> list[ast.AST]:
    """Return the definition that `code` was compiled from; several if lambdas share a line.

    Raises `CodeVersionError` if the source cannot be read or no longer matches.
    """
    lines = linecache.getlines(code.co_filename)
    if not lines:
        raise CodeVersionError(f"{code.co_filename}: the source of {code.co_name} cannot be read; define it in a file")
    if code.co_name == "<lambda>":
        nodes = [node for node in ast.walk(ast.parse("".join(lines))) if _is_lambda(node, code.co_firstlineno)]
    else:
        nodes = [node for node in _parse_block(code, lines) if _is_function(node, code.co_name)]
    if not nodes:
        raise CodeVersionError(
            f"{code.co_filename}:{code.co_firstlineno}: {code.co_name} no longer exists; restart the process"
        )
    return nodes


def tree_of_class(cls: type) -> ast.AST:
    """Return the definition of `cls`; raises `CodeVersionError` if its source cannot be read."""
    try:
        return _parse_statement(inspect.getsource(cls))
    except (OSError, TypeError) as error:
        raise CodeVersionError(f"{cls.__module__}:{cls.__qualname__}: its source cannot be read: {error}") from error


def binding(module: ast.Module, name: str) -> ast.expr | tuple[str, str] | None:
    """Return what `name` is bound to at module level: an expression, or the (module, name) that it is imported from."""
    value: ast.expr | tuple[str, str] | None = None
    for node in module.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                value = node.value
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    value = (node.module, alias.name)
    return value


def strip_tree(tree: ast.AST, *, drop: Callable[[ast.expr], bool]) -> ast.AST:
    """Remove docstrings, annotations of functions, and the decorators for which `drop` is true, from `tree`."""
    return _TreeStripper(drop).visit(tree)  # type: ignore[no-any-return]


class _TreeStripper(ast.NodeTransformer):
    def __init__(self, drop: Callable[[ast.expr], bool]) -> None:
        self._drop = drop

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        for arg in ast.walk(node.args):
            if isinstance(arg, ast.arg):
                arg.annotation = None
        node.decorator_list = [decorator for decorator in node.decorator_list if not self._drop(decorator)]
        return self._without_docstring(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._without_docstring(node)

    def _without_docstring(self, node: ast.FunctionDef | ast.ClassDef) -> ast.AST:
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
        return self.generic_visit(node)


_IGNORED_FIELDS = ("ctx", "type_comment", "kind", "type_ignores")


def canonical_text(node: object) -> str:
    """Return the text of a tree, identical under every version of Python."""
    if isinstance(node, ast.AST):
        fields = ((name, value) for name, value in ast.iter_fields(node) if name not in _IGNORED_FIELDS)
        parts = (f"{name}={canonical_text(value)}" for name, value in fields if value is not None and value != [])
        return f"{type(node).__name__}({','.join(parts)})"
    if isinstance(node, list):
        return f"[{','.join(map(canonical_text, node))}]"
    return repr(node)


def _parse_block(code: CodeType, lines: list[str]) -> list[ast.AST]:
    """Parse only the block that begins on the first line of `code`, which is fast."""
    try:
        return [_parse_statement("".join(inspect.getblock(lines[code.co_firstlineno - 1 :])))]
    except SyntaxError:
        return []


def _parse_statement(block: str) -> ast.AST:
    """Parse the only statement of an indented block, without changing multi-line strings."""
    if not block[:1].isspace():
        return ast.parse(block).body[0]
    return ast.parse(f"if True:\n{block}").body[0].body[0]  # type: ignore[attr-defined,no-any-return]


def _is_function(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name


def _is_lambda(node: ast.AST, line: int) -> bool:
    return isinstance(node, ast.Lambda) and node.lineno == line
