"""Syntax trees of source code, stripped of everything that does not affect its behaviour."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import re
import symtable
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

from springline.spark_jobs.errors import CodeVersionError

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def trees_of(code: CodeType, scope: Mapping[str, Any]) -> list[ast.AST]:
    """Return the definition that `code`, of a module with the globals `scope`, was compiled from.

    Raises `CodeVersionError` if the source cannot be read or no longer matches.
    """
    lines = linecache.getlines(code.co_filename, dict(scope))
    if not lines:
        raise CodeVersionError(f"{code.co_filename}: the source of {code.co_name} cannot be read; define it in a file")
    if code.co_name == "<lambda>":
        nodes: list[ast.AST] = _lambdas(code, ast.parse("".join(lines)))
    else:
        nodes = [
            node for node in _parse_block(code, lines) if isinstance(node, _Function) and node.name == code.co_name
        ]
    if not nodes:
        raise CodeVersionError(
            f"{code.co_filename}:{code.co_firstlineno}: {code.co_name} no longer exists; restart the process"
        )
    return nodes


def tree_of_class(cls: type) -> ast.ClassDef | None:
    """Return the class statement of `cls`; None if a call made it, such as `namedtuple` or `type`."""
    try:
        tree = _parse_statement(inspect.getsource(cls))
    except (OSError, TypeError, SyntaxError):
        return None
    return tree if isinstance(tree, ast.ClassDef) else None


class ModuleStatements:
    """The statements of a module: where a module-level name comes from."""

    def __init__(self, text: str) -> None:
        self._mentions: dict[str, list[ast.stmt]] = defaultdict(list)
        self._values: dict[str, list[ast.expr]] = defaultdict(list)
        self._imports = []
        for statement in ast.parse(text).body:
            self._imports += [node for node in ast.walk(statement) if isinstance(node, ast.ImportFrom)]
            if isinstance(statement, _Function | ast.ClassDef):
                self._mentions[statement.name].append(statement)
                continue
            for name in sorted({node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}):
                self._mentions[name].append(statement)
            for node in ast.walk(statement):
                for name, value in _assigned(node):
                    self._values[name].append(value)

    def defining(self, name: str) -> list[ast.stmt]:
        """Return the statements that define or change the object called `name`, without imports."""
        return self._mentions.get(name, [])

    def values(self, name: str) -> list[ast.expr]:
        """Return the expressions that are assigned to `name`, also as a part."""
        return self._values.get(name, [])

    def imports(self, name: str) -> Iterator[tuple[ast.ImportFrom, str]]:
        """Yield the imports that may bind `name`, each with the name in the other module."""
        for node in self._imports:
            for alias in node.names:
                if name == (alias.asname or alias.name) or alias.name == "*":
                    yield node, name if alias.name == "*" else alias.name


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that `node` itself assigns, with the expression that their values come from."""
    if isinstance(node, ast.For | ast.comprehension):
        targets, value = [node.target], node.iter
    elif isinstance(node, ast.Assign):
        targets, value = node.targets, node.value
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
        targets, value = [node.target], node.value
    else:
        return
    for target in targets:
        yield from ((each.id, value) for each in ast.walk(target) if isinstance(each, ast.Name))


@functools.lru_cache(maxsize=1024)
def module_statements(text: str) -> ModuleStatements:
    """Parse the source of a module."""
    return ModuleStatements(text)


def references(trees: Sequence[ast.AST], *, is_nested: bool = False) -> list[tuple[str, ...]]:
    """Return the names that `trees` use and do not bind, each with the attributes that are read of it, sorted.

    `a.b.c` counts as one, `("a", "b", "c")`. A name that an import inside the trees binds counts as used; if
    `is_nested`, those of decorators and default arguments do not.
    """
    chains: set[tuple[str, ...]] = set()
    for tree in trees:
        imported = {name for name, _, _ in imported_names(tree)}
        _Chains(_free_names(tree, is_nested=is_nested) | imported, chains).visit(tree)
    return sorted(chains)


def imported_names(tree: ast.AST) -> Iterator[tuple[str, ast.Import | ast.ImportFrom, str]]:
    """Yield each name that an import inside `tree` binds, with the statement and the name that is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                top = alias.name.partition(".")[0] if isinstance(node, ast.Import) else alias.name
                yield alias.asname or top, node, alias.name


class _Chains(ast.NodeVisitor):
    def __init__(self, names: set[str], chains: set[tuple[str, ...]]) -> None:
        self._names = names
        self._chains = chains

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path, root = [node.attr], node.value
        while isinstance(root, ast.Attribute):
            path.append(root.attr)
            root = root.value
        if not isinstance(root, ast.Name):
            self.visit(root)
        elif root.id in self._names:
            self._chains.add((root.id, *reversed(path)))

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self._names:
            self._chains.add((node.id,))


def _free_names(tree: ast.AST, *, is_nested: bool) -> set[str]:
    """Return the names that `tree` uses and does not bind, at any depth; if `is_nested`, only in functions."""
    statement = ast.Expr(tree) if isinstance(tree, ast.expr) else tree
    text = ast.unparse(ast.fix_missing_locations(ast.Module([statement], [])))  # type: ignore[list-item]
    text = re.sub(r"^(\s*)nonlocal ", r"\1global ", text, flags=re.MULTILINE)  # what it binds to is not in the tree
    table = symtable.symtable(text, "<tree>", "exec")
    names = set() if is_nested else {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    tables = [table]
    while tables:
        for child in tables.pop().get_children():
            tables.append(child)
            names |= {symbol.get_name() for symbol in child.get_symbols() if symbol.is_global()}
    return names


def strip_tree(tree: ast.AST, *, drop: Callable[[ast.expr], bool]) -> ast.AST:
    """Remove docstrings, annotations in functions, and the decorators for which `drop` is true, from `tree`."""
    return _TreeStripper(drop).visit(tree)  # type: ignore[no-any-return]


class _TreeStripper(ast.NodeTransformer):
    def __init__(self, drop: Callable[[ast.expr], bool]) -> None:
        self._drop = drop
        self._is_in_function = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        for arg in ast.walk(node.args):
            if isinstance(arg, ast.arg):
                arg.annotation = None
        node.decorator_list = [decorator for decorator in node.decorator_list if not self._drop(decorator)]
        return self._without_docstring(node, is_in_function=True)

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._without_docstring(node, is_in_function=False)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if self._is_in_function:
            node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def _without_docstring(self, node: ast.FunctionDef | ast.ClassDef, *, is_in_function: bool) -> ast.AST:
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        before, self._is_in_function = self._is_in_function, is_in_function
        try:
            return self.generic_visit(node)
        finally:
            self._is_in_function = before


_IGNORED_FIELDS = ("ctx", "type_comment", "kind", "type_ignores")


def canonical_text(node: object) -> str:
    """Return the text of a tree, identical under every version of Python."""
    if isinstance(node, ast.AST):
        fields = ((name, value) for name, value in ast.iter_fields(node) if name not in _IGNORED_FIELDS)
        parts = (f"{name}={canonical_text(value)}" for name, value in fields if value is not None and value != [])
        return f"{type(node).__name__}({','.join(parts)})"
    if isinstance(node, list):
        return f"[{','.join(map(canonical_text, node))}]"
    return plain_text(node)


def plain_text(value: object) -> str:
    """Return the text of a number, a text or another constant: ASCII, and for integers of any length."""
    if isinstance(value, frozenset):  # a constant of the source is none; one of an optimised tree may be
        return f"{{{','.join(sorted(map(plain_text, value)))}}}"
    return f"{value:#x}" if type(value) is int else ascii(value)


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


def _lambdas(code: CodeType, tree: ast.AST) -> list[ast.AST]:
    """Return the lambda that `code` was compiled from, by the columns of its body."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno]
    places = [((a, c), (b, d)) for a, b, c, d in code.co_positions() if None not in (a, b, c, d) and (a, c) != (b, d)]
    if not places and len(nodes) > 1:
        raise CodeVersionError(
            f"{code.co_filename}:{code.co_firstlineno}: several lambdas share a line, and this Python keeps no columns"
            " (PYTHONNODEBUGRANGES); write one lambda a line"
        )
    if len(nodes) < 2:
        return list(nodes)
    start, end = min(start for start, _ in places), max(end for _, end in places)  # type: ignore[type-var]
    bodies = [
        node
        for node in nodes
        if (node.body.lineno, node.body.col_offset) <= start  # type: ignore[operator]
        and end <= (node.body.end_lineno, node.body.end_col_offset)  # type: ignore[operator]
    ]
    return list(sorted(bodies, key=lambda node: (node.lineno, node.col_offset))[-1:] or nodes)
