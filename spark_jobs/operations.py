"""The registry of operations: each is declared once with its sources and output, from which the lineage is derived.

@operation("etl.clean", sources={"parsed": "etl/{ds}/parse"}, output="etl/{ds}/clean", idempotent=True)
def clean(context: Context, parsed: DataFrame) -> DataFrame: ...
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.metadata import entry_points
from string import Formatter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_settings import SettingsError

from springline.persistence.errors import CyclicLineageError, UsageError
from springline.persistence.extensions import TABLE_FORMATS
from springline.persistence.model.dataset import Call, Operation
from springline.persistence.model.lineage import check_acyclic
from springline.persistence.model.table_uri import split_uri, split_version
from springline.persistence.project import add_project_to_path
from springline.persistence.text.formatting import format_alternatives
from springline.spark_jobs.code.code_version import code_version
from springline.spark_jobs.code.udfs import is_platform_module, late_udfs, send_by_value
from springline.spark_jobs.errors import CodeVersionError, DeclarationError, ParameterError, UnknownOperationError
from springline.spark_jobs.landing import Landing
from springline.spark_jobs.path_templates import fields_of, fill_template, shape_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger("springline.operations")

Function = TypeVar("Function", bound=Callable[..., Any])

FLOAT_DIGITS = 9  # significant decimal digits of floats that a digest compares


@dataclass(frozen=True)
class Context:
    """The first argument of each operation: session, parameters and landing files.

    Attributes:
        spark: the Spark session.
        params: the operation's parameters by name: the fields of its output's path, such as `ds`, and its options.
        landing: the landing files: `landing.file(day, name)` returns the path or URI of one after checking it against
            its manifest, or raises `LandingError`.

    Example:
        In an operation::

            @operation("coffee.load", output="coffee/{ds}/sales", idempotent=False)
            def load(context: Context) -> DataFrame:
                file = context.landing.file(context.params["ds"], "sales.csv")
                return context.spark.read.csv(spark_path(file), schema="drink string, price double")
    """

    spark: SparkSession
    params: Mapping[str, str]
    landing: Landing


@dataclass(frozen=True)
class OperationOutput:
    """The return value of an operation that stores a report with its rows."""

    frame: DataFrame
    report: Mapping[str, object]


@dataclass(frozen=True)
class DatasetPaths:
    """The dataset paths of one application of an operation; sources in order of declaration."""

    sources: tuple[str, ...]
    output: str


@dataclass(frozen=True)
class RegisteredOperation:
    """An operation as declared: its function, the path templates of its sources and of its output.

    `tables`: URIs of the tables that it reads, with fields like the path templates. `temporary`: its output is not
    needed later, so it is not persisted. `options`: further parameters and their defaults. `float_digits`: number of
    significant decimal digits of floats that the digest compares.
    """

    name: str
    function: Callable[..., Any]
    sources: Mapping[str, str]
    output: str
    idempotent: bool = True
    checkpoint: bool = False
    temporary: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    float_digits: int = FLOAT_DIGITS
    tables: Mapping[str, str] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """Hash of the code, of the names of its sources, and of `float_digits`; raises `CodeVersionError`."""
        if isinstance(self._version, CodeVersionError):
            raise self._version
        return self._version

    @property
    def version_error(self) -> str:
        """Why the version cannot be computed; empty if it can."""
        return str(self._version) if isinstance(self._version, CodeVersionError) else ""

    @cached_property
    def _version(self) -> str | CodeVersionError:
        """The version of the code as it was imported, or why there is none: both are final for this process."""
        try:
            return code_version(self.function, declaration=((*self.sources, *self.tables), self.float_digits))
        except CodeVersionError as error:
            return CodeVersionError(f"operation {self.name} has no version and cannot run: {error}")

    @property
    def doc(self) -> str:
        """First line of the function's docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields of the output's template, which are the required parameters."""
        return fields_of(self.output)

    @property
    def parameters(self) -> tuple[str, ...]:
        """All parameters that a call records: the fields, the options, and the tables in the versions that are read."""
        return (*self.fields, *self.options, *self.tables)

    def catalog_operation(self, reads: tuple[str, ...] = ()) -> Operation:
        """Return the operation as the catalog records it; `reads` are the operations that produce its sources."""
        return Operation(
            self.name, self.version, idempotent=self.idempotent, checkpoint=self.checkpoint, reads=reads,
            output=self.output,
        )  # fmt: skip

    def params(self, values: Mapping[str, str]) -> dict[str, str]:
        """Select this operation's parameters from `values`, with defaults for options.

        Raises `ParameterError` for a missing field.
        """
        if missing := [name for name in self.fields if name not in values]:
            raise ParameterError(f"operation {self.name}: no value for the parameters {', '.join(missing)}")
        return {name: values.get(name, self.options.get(name, "")) for name in self.parameters}

    def paths(self, values: Mapping[str, str]) -> DatasetPaths:
        """Return the paths of its sources and its output for these parameters."""
        params = self.params(values)
        return DatasetPaths(
            tuple(fill_template(source, params) for source in self.sources.values()), fill_template(self.output, params)
        )

    def table_uris(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the URIs of the tables that it reads for these parameters, by name; raises `ParameterError`."""
        params = self.params(values) if self.tables else {}
        return {name: uri.format_map(params) for name, uri in self.tables.items()}

    def call(self, values: Mapping[str, str]) -> Call:
        """Return its application to these parameters, as the catalog records it."""
        return Call(self.name, self.version, self.params(values))


class OperationRegistry:
    """The declared operations, by name, in order of declaration."""

    declares_operations = True  # what is registered is no part of the version of code that refers to a registry

    def __init__(self) -> None:
        self._operations: dict[str, RegisteredOperation] = {}

    def operation(
        self,
        name: str,
        *,
        output: str,
        sources: Mapping[str, str] | None = None,
        tables: Mapping[str, str] | None = None,
        idempotent: bool = True,
        checkpoint: bool = False,
        temporary: bool = False,
        options: Mapping[str, str] | None = None,
        float_digits: int = FLOAT_DIGITS,
    ) -> Callable[[Function], Function]:
        """Declare the decorated function as an operation on Spark.

        The function takes a `Context`, and a DataFrame for each source and then for each table, named and ordered like
        these, and returns a DataFrame.

        Args:
            name: name of the operation, such as `coffee.takings`.
            output: path of its output; fields in braces, such as `{ds}`, are required parameters.
            sources: paths that it reads, by names of the arguments; they may use the fields of the output.
            tables: URIs of tables of Delta Lake or Iceberg that it reads, such as `delta:s3://lake/orders`, by names of
                the arguments. Each call reads one version of them, by default the newest, and records it as the
                parameter of that name.
            idempotent: whether it returns the same rows when it is run again on the same sources.
            checkpoint: whether its output is more important to keep than others.
            temporary: whether its output is not needed later, so that it is not persisted.
            options: further parameters and their defaults.
            float_digits: number of significant decimal digits of floats that the digest compares.

        Returns:
            A decorator that registers the function and returns it unchanged.

        Raises:
            DeclarationError: the declaration contradicts itself or another operation.
            CyclicLineageError: the sources depend on the output.

        Example:
            In a module that `SPRINGLINE_OPERATIONS` names::

                @operation("coffee.takings", sources={"sales": "coffee/{ds}/sales"}, output="coffee/{ds}/takings")
                def takings(context: Context, sales: DataFrame) -> DataFrame:
                    return sales.groupBy("drink").agg(F.sum("price").alias("taken"))
        """

        def register(function: Function) -> Function:
            op = RegisteredOperation(
                name,
                function,
                MappingProxyType(dict(sources or {})),
                output,
                idempotent=idempotent,
                checkpoint=checkpoint,
                temporary=temporary,
                options=MappingProxyType(dict(options or {})),
                float_digits=float_digits,
                tables=MappingProxyType(dict(tables or {})),
            )
            self.add(op)
            return function

        return register

    operation.declares_operations = True  # type: ignore[attr-defined]

    def add(self, op: RegisteredOperation) -> None:
        """Register an operation; raises `DeclarationError` or `CyclicLineageError` if it contradicts the others."""
        _check_declaration(op)
        for other in self._operations.values():
            if other.name == op.name:
                raise DeclarationError(
                    f"operation {op.name} is declared twice: {_qualified_name(other)} and {_qualified_name(op)}"
                )
            if shape_of(other.output) == shape_of(op.output):
                raise DeclarationError(f"{op.output} is the output of two operations: {other.name} and {op.name}")
        operations = {**self._operations, op.name: op}
        try:
            check_acyclic(_edges(operations))
        except CyclicLineageError as error:
            raise CyclicLineageError(f"operation {op.name} ({_qualified_name(op)}) closes a cycle: {error}") from error
        self._operations = operations

    def get(self, name: str) -> RegisteredOperation:
        """Return the operation of this name; raises `UnknownOperationError`."""
        try:
            return self._operations[name]
        except KeyError:
            suggestion = format_alternatives(name, self._operations)
            raise UnknownOperationError(f"unknown operation {name!r}; registered: {suggestion}") from None

    def names(self) -> tuple[str, ...]:
        """Return all names, in order of declaration."""
        return tuple(self._operations)

    @property
    def edges(self) -> Mapping[str, tuple[str, ...]]:
        """By operation, the operations that produce its sources, in the order of its sources."""
        return _edges(self._operations)

    def external_sources(self, name: str) -> tuple[str, ...]:
        """Return the source templates of an operation that no registered operation produces."""
        produced_shapes = {shape_of(other.output) for other in self._operations.values()}
        return tuple(source for source in self.get(name).sources.values() if shape_of(source) not in produced_shapes)

    def topological_order(self) -> tuple[RegisteredOperation, ...]:
        """Return all operations, producers before consumers, otherwise in order of declaration."""
        edges, ordered = self.edges, dict[str, RegisteredOperation]()
        while len(ordered) < len(edges):
            ready = next(
                name for name in edges if name not in ordered and all(maker in ordered for maker in edges[name])
            )
            ordered[ready] = self._operations[ready]
        return tuple(ordered.values())

    def catalog_operations(self) -> tuple[Operation, ...]:
        """Return all operations as the catalog records them, without those whose version cannot be computed."""
        operations = [(self._operations[name], reads) for name, reads in self.edges.items()]
        return tuple(each.catalog_operation(reads) for each, reads in operations if not each.version_error)


REGISTRY = OperationRegistry()
operation = REGISTRY.operation

GROUP = "springline.operations"  # group of entry points in which a package names its modules of operations


def load_operations(modules: Iterable[str] = ()) -> OperationRegistry:
    """Load the operations of installed packages and of `modules`, and return the registry.

    A package names a module in its entry points of the group `springline.operations`; `modules` are those of the
    setting `SPRINGLINE_OPERATIONS`. Raises `SettingsError` if a module cannot be found; errors that a module raises are
    not caught. An operation whose version cannot be computed is logged, and fails when it is run.

    Example:
        >>> load_operations(["springline.spark_jobs.etl"]).get("etl.clean").output
        'etl/{ds}/clean'
    """
    add_project_to_path()
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        package = entry.dist.name if entry.dist else "a package"
        _load(entry.module, f"{package}, entry point {entry.name!r} of {GROUP}", "reinstall the package")
    remedy = "put it on PYTHONPATH, or next to the project's springline.toml"
    for module in modules:
        _load(module, "SPRINGLINE_OPERATIONS", remedy)
    for op in REGISTRY.topological_order():  # computes the versions while the files are still those that were imported
        if op.version_error:
            logger.warning("%s", op.version_error)
    return REGISTRY


def _load(module: str, where: str, remedy: str) -> None:
    """Import a module of operations; `where` names the setting or entry point that asks for it."""
    try:
        if is_platform_module(module):  # installed on Spark's workers
            import_module(module)
            return
        with late_udfs():
            send_by_value(import_module(module))
    except ModuleNotFoundError as error:
        if f"{module}.".startswith(f"{error.name}."):
            raise SettingsError(f"{where}: no module {module!r} can be imported; {remedy}") from error
        raise


def _check_declaration(op: RegisteredOperation) -> None:
    where = f"operation {op.name} ({_qualified_name(op)})"
    allowed_fields = {*fields_of(op.output), *op.options}
    for source in op.sources.values():
        if unknown := [name for name in fields_of(source) if name not in allowed_fields]:
            raise DeclarationError(
                f"{where}: the source {source!r} has the field {unknown[0]!r}, which neither the output"
                f" {op.output!r} nor the options contain"
            )
    for name, uri in op.tables.items():
        _check_table(where, name, uri, allowed_fields)
    arguments = list(inspect.signature(op.function).parameters)
    names = [*op.sources, *op.tables]
    if arguments[1:] != names or not arguments or len(set(names)) < len(names):
        declared = "sources and tables" if op.tables else "sources"
        raise DeclarationError(
            f"{where}: its parameters are ({', '.join(arguments)}), but its {declared} require"
            f" ({', '.join(['context', *names])})"
        )


def _check_table(where: str, name: str, uri: str, allowed_fields: set[str]) -> None:
    """Check a table that an operation reads: its URI, the fields in it, and the name of its parameter."""
    if name in allowed_fields:
        raise DeclarationError(f"{where}: {name!r} is a table, and a parameter of another kind")
    try:
        TABLE_FORMATS.check(split_uri(uri)[0])
        if split_version(uri)[1]:
            raise UsageError(f"{uri!r} names a version: leave it out, and give it as the parameter {name!r}")
        unknown = [each for _, each, _, _ in Formatter().parse(uri) if each is not None and each not in allowed_fields]
    except (UsageError, ValueError) as error:
        raise DeclarationError(f"{where}: the table {name!r}: {error}") from error
    if unknown:
        raise DeclarationError(
            f"{where}: the table {uri!r} has the field {unknown[0]!r}, which neither the output nor the options contain"
        )


def _edges(operations: Mapping[str, RegisteredOperation]) -> dict[str, tuple[str, ...]]:
    makers = {shape_of(op.output): name for name, op in operations.items()}
    return {
        name: _unique(makers[shape] for source in declared.sources.values() if (shape := shape_of(source)) in makers)
        for name, declared in operations.items()
    }


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _qualified_name(op: RegisteredOperation) -> str:
    return f"{op.function.__module__}.{op.function.__qualname__}"
