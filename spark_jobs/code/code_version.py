"""The version of an operation's code: a hash of the code's content, independent of its layout.

The hash covers the syntax trees of the function and of every function and class of this project that it refers to,
directly or indirectly, and the values of every constant, default argument, closure and attribute that they can reach. A
value without parts that are the same in every process is replaced by the statements that define its name, and refused
if there are none. Comments, docstrings, formatting and annotations of functions are ignored. Libraries are hashed by
name only (if an upgrade changes a result, the digest shows it), and so are the parts of this platform other than its
Spark jobs. It does not matter whether a package is installed or lies in a folder.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import linecache
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec, resolve_name
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

from springline.spark_jobs.code.class_attributes import attributes_of, defined_names
from springline.spark_jobs.code.code_tree import (
    canonical_text,
    imported_names,
    plain_text,
    references,
    strip_tree,
    tree_of_class,
    trees_of,
)
from springline.spark_jobs.code.library_folders import library_folder
from springline.spark_jobs.code.module_scope import MISSING, ModuleScope
from springline.spark_jobs.code.pickle_form import no_form, parts_of
from springline.spark_jobs.code.value_graph import Node, NodeRef, Term, graph_digest, hash_text
from springline.spark_jobs.errors import CodeVersionError

_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented)})
_ROOT = "springline"
_OWN = "springline.spark_jobs"
_UDFS = "springline.spark_jobs.code.udfs"
_LONGEST = 200  # characters of a text before its hash replaces it
_LOCATIONS = frozenset({"__file__", "__path__", "__cached__", "__spec__", "__loader__", "__builtins__"})
_REFLECTION = frozenset({"globals", "eval", "exec", "vars"})  # builtins that reach every name of their module
_IMPORTS = frozenset({"importlib.import_module", "import_module", "importlib.__import__", "__import__"})


def code_version(function: Callable[..., Any], *, declaration: object = ()) -> str:
    """Compute the version of `function`, 16 hexadecimal digits; the repr of `declaration` is included in the hash.

    Raises `CodeVersionError` if a source that is to be hashed cannot be read, or if a value that the function can reach
    has no form that is the same in every process.
    """
    collector = CodeCollector(function)
    try:
        root = collector.collect()
        return graph_digest({**collector.nodes, "root": Node([repr(declaration), root])}, NodeRef("root"))
    except CodeVersionError:
        raise
    except Exception as error:  # of a module that is imported, or of a method that pickle calls
        raise CodeVersionError(
            f"{function.__module__}:{function.__qualname__}: its code cannot be read: {type(error).__name__}: {error}"
        ) from error


class CodeCollector:
    """Collects everything that a function can reach as nodes of a graph, each object once."""

    def __init__(self, function: Any) -> None:
        self.nodes: dict[Hashable, Node] = {}
        self._function = function
        self._pending: list[Callable[[], None]] = []
        self._terms: dict[int, Term] = {}
        self._failures: dict[int, CodeVersionError] = {}
        self._values: list[Any] = []  # keeps them alive, so that no id is used twice
        self._open: set[int] = set()
        self._cyclic: set[int] = set()
        self._packages = {_package(function.__module__), _OWN}
        self._folders = _project_folders(inspect.unwrap(function))

    def collect(self) -> Term:
        """Collect what the function can reach, and return the term of the function."""
        try:
            root = self._term(self._function)
        except CodeVersionError as error:
            scope = ModuleScope(getattr(inspect.unwrap(self._function), "__globals__", {}))
            name = next((name for name, value in scope.values.items() if value is self._function), "")
            root = self._definition(scope, name or self._function.__qualname__, error)
        while self._pending:
            self._pending.pop()()
        return root

    def _term(self, value: Any) -> Term:
        """Return the text of a value, or a reference to its node if it contains code, or itself."""
        if type(value) in _PLAIN:
            return _short(f"{type(value).__name__} {plain_text(self._relocated(value))}")
        key = id(value)
        if key in self._terms:
            return self._terms[key]
        if key in self._failures:
            raise self._failures[key]
        if key in self._open:
            self._cyclic.add(key)
            return NodeRef(key)
        self._values.append(value)
        self._open.add(key)
        try:
            node = self._node(value, key)
        except (CodeVersionError, RecursionError) as error:
            if isinstance(error, RecursionError):
                error = no_form(type(value), ": it is nested too deeply")
            self._failures[key] = error
            self.nodes[key] = Node(["defined by a name"])  # referred to from what that definition describes
            raise error from None
        finally:
            self._open.discard(key)
        if key in self._cyclic or key in self.nodes or not all(isinstance(each, str) for each in node.terms):
            self.nodes[key] = node
            self._terms[key] = NodeRef(key)
        else:
            texts = [str(each) for each in node.terms]
            self._terms[key] = _short(f"({', '.join(sorted(texts) if node.is_set else texts)})")
        return self._terms[key]

    def _node(self, value: Any, key: int) -> Node:
        if isinstance(value, ModuleType):
            scope = ModuleScope(vars(value))
            return Node([self._module(scope) if self._is_our_module(value) else f"module {scope.name}"])
        if isinstance(value, type):
            return self._class_node(value, key)
        if self._is_wrapper(value):
            if not _is_global(value):  # its arguments are known only where a name is defined by it
                wrapped = getattr(value.__wrapped__, "__qualname__", value.__wrapped__)
                raise no_form(type(value), f": a library has made it of {wrapped}")
            registered = inspect.getattr_static(value, "registry", None)  # of functools.singledispatch
            implementations = registered if isinstance(registered, MappingProxyType) else ()
            node = self.nodes[key] = Node(["wrapper"])
            node.terms += [self._term(value.__wrapped__), self._term(implementations)]
            return node
        if isinstance(value, FunctionType):
            return self._function_node(value, key)
        if getattr(type(value), "declares_operations", False) is True:
            return Node(["registry of operations"])
        if _is_global(value) and not self._is_our_module(sys.modules[value.__module__]):
            return Node([f"library {value.__module__}:{value.__qualname__}"])
        if isinstance(value, BuiltinFunctionType) and self._is_ours_name(value.__module__):
            raise CodeVersionError(
                f"{value.__module__}:{value.__qualname__} is compiled, so its code cannot be read; install it as a"
                " package"
            )
        parts = parts_of(value, is_ours=self._is_our_class(type(value)))
        terms = [self._term(each) for each in parts.values]
        return Node([parts.label, *terms], is_set=parts.is_set)

    def _function_node(self, function: FunctionType, key: int) -> Node:
        code, bound = function.__code__, dict(_closure(function))
        node = Node([f"function {function.__module__}:{function.__qualname__}"])
        is_ours = self._is_ours(function.__module__, code.co_filename)
        if not is_ours and _is_global(function):
            return node
        self.nodes[key] = node
        attributes = {name: value for name, value in vars(function).items() if name != "__wrapped__"}
        for each in (bound, function.__defaults__, function.__kwdefaults__, dict(sorted(attributes.items()))):
            node.terms.append(self._term(each))
        if is_ours:
            scope = ModuleScope(function.__globals__)
            trees = self._add_trees(node, trees_of(code, function.__globals__), scope)
            self._add_references(node, trees, scope, bound, is_nested="<locals>" in function.__qualname__)
        return node

    def _class_node(self, cls: type, key: int) -> Node:
        node = Node([f"class {cls.__module__}:{cls.__qualname__}"])
        if not self._is_our_class(cls):
            return node
        self.nodes[key] = node
        tree, module = tree_of_class(cls), sys.modules.get(cls.__module__)
        node.terms += [self._term(each) for each in (type(cls), *cls.__bases__)]
        for name, value in attributes_of(cls, tree):
            try:
                node.terms += [name, self._term(value)]
            except CodeVersionError:
                if tree is None or "<locals>" in cls.__qualname__ or name not in defined_names(tree):
                    raise  # else the class statement says it
        if tree is not None and module is not None:
            scope = ModuleScope(vars(module))
            trees = self._add_trees(node, [tree], scope)
            if "<locals>" not in cls.__qualname__:  # else the values of its attributes are all that is known
                self._add_references(node, trees, scope, {})
        return node

    def _module(self, scope: ModuleScope) -> Term:
        """Return the term of all that a module defines."""
        key = ("module", scope.name)
        if key not in self.nodes:
            node = self.nodes[key] = Node([f"module {scope.name}"])
            values = {
                name: value
                for name, value in sorted(scope.values.items())
                if not (name.startswith("__") and name.endswith("__")) and not _is_declarator(value)
            }
            self._pending.append(
                lambda: node.terms.extend(
                    each for name, value in values.items() for each in (name, self._named(scope, name, value))
                )
            )
        return NodeRef(key)

    def _add_trees(self, node: Node, trees: Iterable[ast.AST], scope: ModuleScope) -> list[ast.AST]:
        """Add trees to `node`, without what does not affect their behaviour, and return them."""
        stripped = [strip_tree(tree, drop=lambda each: _is_declarator(_value_of(each, scope))) for tree in trees]
        node.terms += map(canonical_text, stripped)
        return stripped

    def _add_references(
        self, node: Node, trees: list[ast.AST], scope: ModuleScope, bound: Mapping[str, Any], *, is_nested: bool = False
    ) -> None:
        """Add to `node`, later, what the names in `trees` refer to; `bound` are those of enclosing functions.

        If `is_nested`, decorators and default arguments use names of an enclosing function: their values are known.
        """
        self._pending.append(lambda: node.terms.extend(self._references(trees, scope, bound, is_nested=is_nested)))

    def _references(
        self, trees: list[ast.AST], scope: ModuleScope, bound: Mapping[str, Any], *, is_nested: bool
    ) -> Iterator[Term]:
        """Yield the names that `trees` use, each with its term."""
        imported = {name: binding for tree in trees for name, binding in self._imports(tree, scope)}
        for root, *path in references(trees, is_nested=is_nested):
            term: Term | None = None
            if root in bound:
                term = self._resolved(None, root, bound[root], path)
            elif root in imported:
                term = self._resolved(*imported[root], path)
            elif root in scope.values:
                term = self._resolved(scope, root, scope.values[root], path)
            elif root in _REFLECTION:
                term = self._module(scope)
            if term is not None:
                yield from (".".join([root, *path]), term)
        for call in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if scope.call_name(call.func) in _IMPORTS:
                yield self._dynamic_import(call, scope)

    def _resolved(self, scope: ModuleScope | None, name: str, value: Any, path: Iterable[str]) -> Term | None:
        """Return the term of `value.path`, where modules of this project are entered; None if there is none."""
        for each in path:
            if not isinstance(value, ModuleType) or not self._is_our_module(value):
                break
            scope, name = ModuleScope(vars(value)), each
            value = scope.attribute(name)
        if value is MISSING:
            return None
        return self._named(scope, name, value) if scope is not None else self._term(value)

    def _named(self, scope: ModuleScope, name: str, value: Any) -> Term:
        """Return the term of the value of a module-level name."""
        if name in _LOCATIONS:
            return name
        if (origin := self._library_origin(scope, name, value)) is not None:
            return origin
        if not isinstance(value, type | FunctionType | ModuleType) and (reason := scope.changing_value(name)):
            raise CodeVersionError(f"{scope.name}:{name}: {reason}")
        try:
            return self._term(value)
        except CodeVersionError as error:
            return self._definition(scope, name, error)

    def _library_origin(self, scope: ModuleScope, name: str, value: Any) -> str | None:
        """Return where a name is imported from, if that is a library: its value does not count."""
        origins = [(scope.absolute(node), other) for node, other in scope.statements.imports(name)]
        if isinstance(value, ModuleType) or scope.statements.values(name) or not origins:
            return None
        if any(self._is_ours_name(module) for module, _ in origins):
            return None
        return f"library {', '.join(sorted(f'{module}.{other}' for module, other in origins))}"

    def _definition(self, scope: ModuleScope, name: str, error: CodeVersionError) -> Term:
        """Return the term of the statements that define a name, whose value has no form for the reason `error`.

        Raises `CodeVersionError` if there are none.
        """
        key = ("name", scope.name, name)
        if key in self.nodes:
            return NodeRef(key)
        if trees := scope.statements.defining(name):
            node = self.nodes[key] = Node([f"{scope.name}:{name}"])
            self._add_references(node, self._add_trees(node, copy.deepcopy(trees), scope), scope, {})
            return NodeRef(key)
        for imported, other in scope.statements.imports(name):
            if self._is_ours_name(module := scope.absolute(imported)):
                inner = ModuleScope(vars(import_module(module)))
                if inner.attribute(other) is not MISSING:
                    return self._definition(inner, other, error)
        raise CodeVersionError(f"{scope.name}:{name}: {error}")

    def _imports(self, tree: ast.AST, scope: ModuleScope) -> Iterator[tuple[str, tuple[ModuleScope, str, Any]]]:
        """Yield the names that imports inside `tree` bind to code of this project; libraries are not imported."""
        for name, node, other in imported_names(tree):
            module = other if isinstance(node, ast.Import) else scope.absolute(node)
            if not self._is_ours_name(module):
                continue
            inner = ModuleScope(vars(import_module(module)))
            if isinstance(node, ast.ImportFrom):
                yield name, (inner, other, inner.attribute(other))
            else:
                yield name, (inner, name, sys.modules[module.partition(".")[0] if name != other else module])

    def _dynamic_import(self, call: ast.Call, scope: ModuleScope) -> Term:
        """Return the term of a module that a call imports; raises `CodeVersionError` if its name is computed."""
        name = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
        if not isinstance(name, str) and _package(scope.name) == _OWN:  # what the platform loads, it is asked to
            return "module by a computed name"
        if not isinstance(name, str):
            raise CodeVersionError(
                f"{scope.name}: {ast.unparse(call)} imports a module by a computed name, so its code cannot be part of"
                " the version; import it by an import statement"
            )
        module = resolve_name(name, scope.package)
        return (
            self._module(ModuleScope(vars(import_module(module)))) if self._is_ours_name(module) else f"module {module}"
        )

    def _relocated(self, value: Any) -> Any:
        """Return a text without the folder that the project lies in."""
        if isinstance(value, str):
            for folder in self._folders:
                if value == folder or value.startswith(f"{folder}/"):
                    return f"<project>{value[len(folder) :]}"
        return value

    def _is_wrapper(self, value: Any) -> bool:
        """Return whether a library has made `value` of a function or class, such as `lru_cache` or a UDF."""
        if isinstance(value, staticmethod | classmethod) or inspect.getattr_static(value, "__wrapped__", None) is None:
            return False
        if isinstance(value, FunctionType):
            file = value.__code__.co_filename
            return not self._is_ours(value.__module__, file) or not linecache.getlines(file)
        return type(value).__module__ == _UDFS or not self._is_our_class(type(value))

    def _is_our_class(self, cls: type) -> bool:
        """Return whether a class is one of this project, or made by a library at its request."""
        is_static = not cls.__flags__ & 1 << 9  # of Python itself, or of a library in C
        return not is_static and (self._is_ours_name(cls.__module__) or not _is_global(cls))

    def _is_our_module(self, module: ModuleType) -> bool:
        folders = getattr(module, "__path__", ())
        return self._is_ours(module.__name__, getattr(module, "__file__", None) or next(iter(folders), None))

    def _is_ours_name(self, name: str | None) -> bool:
        """Return whether the module of this name belongs to this project, without importing it."""
        if name is None:
            return False
        if (module := sys.modules.get(name)) is not None:
            return self._is_our_module(module)
        spec = find_spec(_package(name)) if name != "__main__" else None
        return spec is not None and self._is_ours(
            name, spec.origin or next(iter(spec.submodule_search_locations or ()), None)
        )

    def _is_ours(self, module: str, file: str | None) -> bool:
        package = _package_of_file(file) if file else None
        return package == "" or (_package(module) if package is None else package) in self._packages


@functools.lru_cache(maxsize=4096)
def _package_of_file(file: str) -> str | None:
    """Return the package of the platform or of a library that a file belongs to; empty for user code, None if unknown.

    A library's wrapper copies the module name of the function that it wraps, so its file decides.
    """
    path = Path(file).resolve()
    if not path.exists():
        return None
    for name, folder in _platform_folders().items():  # in the checkout, its packages are in separate folders
        if path.is_relative_to(folder):
            return name
    library = library_folder(path)
    return _package(".".join(path.relative_to(library).with_suffix("").parts)) if library else ""


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"hash {hash_text(text)}"


def _is_global(value: Any) -> bool:
    """Return whether a value is what its module has under its name."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module not in sys.modules:
        return False
    current: Any = sys.modules[module]
    for part in name.split("."):
        current = inspect.getattr_static(current, part, MISSING)
    return getattr(current, "__func__", current) is value


def _closure(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not bound yet
            continue


def _value_of(decorator: ast.expr, scope: ModuleScope) -> Any:
    """Return the object that a decorator names, without its arguments."""
    callee = decorator.func if isinstance(decorator, ast.Call) else decorator
    path: list[str] = []
    while isinstance(callee, ast.Attribute):
        path.append(callee.attr)
        callee = callee.value
    value = scope.values.get(callee.id) if isinstance(callee, ast.Name) else None
    for name in reversed(path):
        value = getattr(value, name, None)
    return value


def _is_declarator(value: Any) -> bool:
    """Return whether `value` declares operations; the arguments of a declaration are not part of the code."""
    return isinstance(value, MethodType) and getattr(value.__func__, "declares_operations", False) is True


def _project_folders(function: Any) -> tuple[str, ...]:
    """Return the folder that the modules of a function's project are imported from, by each of its names."""
    file, module = str(getattr(function, "__globals__", {}).get("__file__", "")), function.__module__
    depth = module.count(".") + (Path(file).stem == "__init__")
    folders = {
        str(path.parents[depth]) for path in (Path(file).absolute(), Path(file).resolve()) if depth < len(path.parents)
    }
    return tuple(sorted(folders - {"/"}, key=len, reverse=True))


@functools.cache
def _platform_folders() -> dict[str, Path]:
    """Return the folders of this platform's packages by name, innermost first."""
    root = Path(__file__).absolute().parents[2]  # not resolved: the folders of the package are links in the checkout
    inner = {f"{_ROOT}.{each.name}": each.resolve() for each in root.iterdir() if each.is_dir()}
    return {**inner, _ROOT: root.resolve()}


def _package(module: str) -> str:
    """Return the package that a module belongs to; each subpackage of Springline counts as one."""
    return ".".join(module.split(".")[: 2 if module.startswith(f"{_ROOT}.") else 1])
