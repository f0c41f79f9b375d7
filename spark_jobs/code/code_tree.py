"""Syntax trees of code as it stands in its file, stripped of what does not change what it does."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable
from types import CodeType

from springline.spark_jobs.errors import CodeVersionError


def trees_of(code: CodeType) -> list[ast.AST]:
    """The definition that `code` was compiled from; several where lambdas share a line."""
    lines = linecache.getlines(code.co_filename)
    if not lines:
        raise CodeVersionError(f"{code.co_filename}: the source of {code.co_name} cannot be read; put it into a file")
    if code.co_name == "<lambda>":
        found = [node for node in ast.walk(ast.parse("".join(lines))) if _is_lambda(node, code.co_firstlineno)]
    else:
        found = [node for node in _block(code, lines) if _is_function(node, code.co_name)]
    if not found:
        raise CodeVersionError(
            f"{code.co_filename}:{code.co_firstlineno}: {code.co_name} is no longer there; start anew"
        )
    return found


def tree_of_class(cls: type) -> ast.AST:
    """The definition of `cls`."""
    try:
        return _parsed(inspect.getsource(cls))
    except (OSError, TypeError) as error:
        raise CodeVersionError(f"{cls.__module__}:{cls.__qualname__}: its source cannot be read: {error}") from error


def binding(module: ast.Module, name: str) -> ast.expr | tuple[str, str] | None:
    """What `name` is bound to at the top of a module: an expression, or (module, name) that it is imported from."""
    found: ast.expr | tuple[str, str] | None = None
    for node in module.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                found = node.value
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    found = (node.module, alias.name)
    return found


def stripped(tree: ast.AST, *, drop: Callable[[ast.expr], bool]) -> ast.AST:
    """`tree` without docstrings, annotations of functions, and the decorators that `drop` names."""
    return _Bare(drop).visit(tree)  # type: ignore[no-any-return]


class _Bare(ast.NodeTransformer):
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


_UNSAID = ("ctx", "type_comment", "kind", "type_ignores")


def canonical(node: object) -> str:
    """The text of a tree, the same under every version of Python."""
    if isinstance(node, ast.AST):
        fields = ((name, value) for name, value in ast.iter_fields(node) if name not in _UNSAID)
        said = (f"{name}={canonical(value)}" for name, value in fields if value is not None and value != [])
        return f"{type(node).__name__}({','.join(said)})"
    if isinstance(node, list):
        return f"[{','.join(map(canonical, node))}]"
    return repr(node)


def _block(code: CodeType, lines: list[str]) -> list[ast.AST]:
    """What begins on the first line of `code`; its lines alone are parsed, which is quick."""
    try:
        return [_parsed("".join(inspect.getblock(lines[code.co_firstlineno - 1 :])))]
    except SyntaxError:
        return []


def _parsed(block: str) -> ast.AST:
    """The one statement of an indented block; its strings keep their lines as they stand."""
    if not block[:1].isspace():
        return ast.parse(block).body[0]
    return ast.parse(f"if True:\n{block}").body[0].body[0]  # type: ignore[attr-defined,no-any-return]


def _is_function(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name


def _is_lambda(node: ast.AST, line: int) -> bool:
    return isinstance(node, ast.Lambda) and node.lineno == line
