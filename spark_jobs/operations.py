"""The registry of operations: declared once with their sources and output, from which all lineage follows.

@operation("etl.clean", sources={"parsed": "etl/{ds}/parse"}, output="etl/{ds}/clean", idempotent=True)
def clean(context: Context, parsed: DataFrame) -> DataFrame: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_settings import SettingsError

from springline.persistence.errors import CyclicLineageError
from springline.persistence.model.dataset import Call, Operation
from springline.persistence.model.lineage import check_acyclic
from springline.persistence.project import let_import
from springline.persistence.text.formatting import say_known
from springline.spark_jobs.code.code_version import code_version
from springline.spark_jobs.code.udfs import is_platform, late_udfs, send_by_value
from springline.spark_jobs.errors import DeclarationError, ParameterError, UnknownOperationError
from springline.spark_jobs.landing import Landing
from springline.spark_jobs.path_templates import fields_of, fill, shape_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Function = TypeVar("Function", bound=Callable[..., Any])

FLOAT_DIGITS = 9  # significant decimal digits of floats that count in a digest


@dataclass(frozen=True)
class Context:
    """What an operation may look at besides its sources; the first argument of each.

    Attributes:
        spark: the session.
        params: the operation's parameters by name: the fields of its output's path, such as `ds`, and its options.
        landing: the landing files: `landing.file(day, name)` gives one once it is what its manifest says, or raises
            `LandingError`.

    Example:
        In an operation::

            @operation("coffee.load", output="coffee/{ds}/sales", idempotent=False)
            def load(context: Context) -> DataFrame:
                file = context.landing.file(context.params["ds"], "sales.csv")
                return context.spark.read.csv(spark_path(str(file)), schema="drink string, price double")
    """

    spark: SparkSession
    params: Mapping[str, str]
    landing: Landing


@dataclass(frozen=True)
class Output:
    """What an operation returns where it has a report to leave with its rows."""

    frame: DataFrame
    report: Mapping[str, object]


@dataclass(frozen=True)
class Paths:
    """The dataset paths of one application of an operation, sources in declared order."""

    sources: tuple[str, ...]
    output: str


@dataclass(frozen=True)
class RegisteredOperation:
    """An operation as declared: its code, the path templates of its sources and of its output.

    `temporary`: its output is nobody's to keep, so it is not persisted. `options`: further parameters and
    their defaults. `float_digits`: significant decimal digits of floats that count in the digest.
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

    @cached_property
    def version(self) -> str:
        """A hash of the code, and of what decides how its arguments and its digest are to be read."""
        return code_version(self.function, declared=(tuple(self.sources), self.float_digits))

    @property
    def doc(self) -> str:
        """The first line of the function's docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the output's template: what has to be given."""
        return fields_of(self.output)

    @property
    def parameters(self) -> tuple[str, ...]:
        """All that a call of it records: the fields, and the options."""
        return (*self.fields, *self.options)

    def model(self, reads: tuple[str, ...] = ()) -> Operation:
        """As the catalog knows it; `reads` are the operations that make its sources."""
        return Operation(self.name, self.version, idempotent=self.idempotent, checkpoint=self.checkpoint, reads=reads)

    def params(self, given: Mapping[str, str]) -> dict[str, str]:
        """`given` cut to this operation's parameters, options filled in.

        Raises `ParameterError` for a missing field.
        """
        if missing := [name for name in self.fields if name not in given]:
            raise ParameterError(f"operation {self.name}: no value was given for {', '.join(missing)}")
        return {name: given.get(name, self.options.get(name, "")) for name in self.parameters}

    def paths(self, given: Mapping[str, str]) -> Paths:
        """Where its sources and its output are for these parameters."""
        params = self.params(given)
        return Paths(tuple(fill(source, params) for source in self.sources.values()), fill(self.output, params))

    def call(self, given: Mapping[str, str]) -> Call:
        """Its application to these parameters, as the catalog records it."""
        return Call(self.name, self.version, self.params(given))


class Registry:
    """The operations that were declared, by name, in the order of their declaration."""

    def __init__(self) -> None:
        self._operations: dict[str, RegisteredOperation] = {}

    def operation(
        self,
        name: str,
        *,
        output: str,
        sources: Mapping[str, str] | None = None,
        idempotent: bool = True,
        checkpoint: bool = False,
        temporary: bool = False,
        options: Mapping[str, str] | None = None,
        float_digits: int = FLOAT_DIGITS,
    ) -> Callable[[Function], Function]:
        """Declare the decorated function as an operation on Spark.

        It takes a `Context` and a DataFrame for each source, by the sources' names in their order, and returns a
        DataFrame.

        Args:
            name: of the operation, such as `coffee.takings`.
            output: the path of its output; fields in braces, such as `{ds}`, are parameters that have to be given.
            sources: paths that it reads, by the names of the arguments; their fields are those of the output.
            idempotent: whether it gives the same rows when it is run again on the same sources.
            checkpoint: whether its output is worth keeping more than others.
            temporary: whether its output is nobody's to keep, so that it is not persisted.
            options: further parameters, and their defaults.
            float_digits: significant decimal digits of floats that count in the digest.

        Returns:
            A decorator that registers the function and gives it back as it is.

        Raises:
            DeclarationError: it contradicts itself or another operation.
            CyclicLineageError: its sources lead back to its output.

        Example:
            In a module that `SPRINGLINE_OPERATIONS` names::

                @operation("coffee.takings", sources={"sales": "coffee/{ds}/sales"}, output="coffee/{ds}/takings")
                def takings(context: Context, sales: DataFrame) -> DataFrame:
                    return sales.groupBy("drink").agg(F.sum("price").alias("taken"))
        """

        def register(function: Function) -> Function:
            declared = RegisteredOperation(
                name,
                function,
                MappingProxyType(dict(sources or {})),
                output,
                idempotent=idempotent,
                checkpoint=checkpoint,
                temporary=temporary,
                options=MappingProxyType(dict(options or {})),
                float_digits=float_digits,
            )
            self.add(declared)
            return function

        return register

    operation.declares_operations = True  # type: ignore[attr-defined]

    def add(self, declared: RegisteredOperation) -> None:
        """Take in an operation that contradicts neither itself nor those that are here."""
        _check_itself(declared)
        for other in self._operations.values():
            if other.name == declared.name:
                raise DeclarationError(
                    f"operation {declared.name} is declared twice: {_place(other)} and {_place(declared)}"
                )
            if shape_of(other.output) == shape_of(declared.output):
                raise DeclarationError(
                    f"{declared.output} has two makers: the operations {other.name} and {declared.name}"
                )
        operations = {**self._operations, declared.name: declared}
        try:
            check_acyclic(_edges(operations))
        except CyclicLineageError as error:
            raise CyclicLineageError(
                f"operation {declared.name} ({_place(declared)}) closes a cycle: {error}"
            ) from error
        self._operations = operations

    def get(self, name: str) -> RegisteredOperation:
        """The operation of this name; raises `UnknownOperationError`."""
        try:
            return self._operations[name]
        except KeyError:
            known = say_known(name, self._operations)
            raise UnknownOperationError(f"no operation is called {name!r}; registered: {known}") from None

    def names(self) -> tuple[str, ...]:
        """All names, in the order of declaration."""
        return tuple(self._operations)

    @property
    def edges(self) -> Mapping[str, tuple[str, ...]]:
        """By operation, the operations that make its sources, in the order of its sources."""
        return _edges(self._operations)

    def outside(self, name: str) -> tuple[str, ...]:
        """The source templates of an operation that nothing registered here makes."""
        made = {shape_of(other.output) for other in self._operations.values()}
        return tuple(source for source in self.get(name).sources.values() if shape_of(source) not in made)

    def in_order(self) -> tuple[RegisteredOperation, ...]:
        """All operations, makers of sources before their users, else as declared."""
        edges, placed = self.edges, dict[str, RegisteredOperation]()
        while len(placed) < len(edges):
            ready = next(name for name in edges if name not in placed and all(made in placed for made in edges[name]))
            placed[ready] = self._operations[ready]
        return tuple(placed.values())

    def models(self) -> tuple[Operation, ...]:
        """All operations as the catalog knows them."""
        return tuple(self._operations[name].model(reads) for name, reads in self.edges.items())


REGISTRY = Registry()
operation = REGISTRY.operation

GROUP = "springline.operations"  # of entry points: a package names its modules of operations there


def load_operations(modules: Iterable[str] = ()) -> Registry:
    """The registry with the operations that installed packages bring, and those that `modules` declare.

    A package names a module in its entry points of the group `springline.operations`; `modules` are those of the
    setting `SPRINGLINE_OPERATIONS`. Raises `SettingsError` if one of them is not there; what is wrong inside one is
    raised as it is.

    Example:
        >>> load_operations(["springline.spark_jobs.etl"]).get("etl.clean").output
        'etl/{ds}/clean'
    """
    let_import()
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        package = entry.dist.name if entry.dist else "a package"
        _load(entry.module, f"{package}, entry point {entry.name!r} of {GROUP}", "install the package anew")
    remedy = "it must be on PYTHONPATH, or beside the project's springline.toml"
    for module in modules:
        _load(module, "SPRINGLINE_OPERATIONS", remedy)
    REGISTRY.models()  # tells the versions while the files are still those that were imported
    return REGISTRY


def _load(module: str, where: str, remedy: str) -> None:
    """Import a module of operations, which `where` names."""
    try:
        if is_platform(module):  # Spark's workers have it
            import_module(module)
            return
        with late_udfs():
            send_by_value(import_module(module))
    except ModuleNotFoundError as error:
        if f"{module}.".startswith(f"{error.name}."):
            raise SettingsError(f"{where}: no module {module!r} can be imported; {remedy}") from error
        raise


def _check_itself(declared: RegisteredOperation) -> None:
    where = f"operation {declared.name} ({_place(declared)})"
    known = {*fields_of(declared.output), *declared.options}
    for source in declared.sources.values():
        if unknown := [name for name in fields_of(source) if name not in known]:
            raise DeclarationError(
                f"{where}: the source {source!r} has the field {unknown[0]!r}, which neither the output"
                f" {declared.output!r} nor the options name"
            )
    arguments = list(inspect.signature(declared.function).parameters)
    if arguments[1:] != list(declared.sources) or not arguments:
        raise DeclarationError(
            f"{where}: it takes ({', '.join(arguments)}), but its sources ask for"
            f" ({', '.join(['context', *declared.sources])})"
        )


def _edges(operations: Mapping[str, RegisteredOperation]) -> dict[str, tuple[str, ...]]:
    makers = {shape_of(declared.output): name for name, declared in operations.items()}
    return {
        name: _once(makers[shape] for source in declared.sources.values() if (shape := shape_of(source)) in makers)
        for name, declared in operations.items()
    }


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _place(declared: RegisteredOperation) -> str:
    return f"{declared.function.__module__}.{declared.function.__qualname__}"
