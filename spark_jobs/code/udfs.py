"""Python UDFs of modules with operations: created at each use, and sent to Spark with their code.

PySpark creates a UDF for the kind of session that exists at that moment. Module-level code runs at import: in Airflow's
DAG processor, where there is no session, and in a task before its session exists. There `@F.udf("long")` fails, and
`@F.udf(LongType())` creates a UDF for a session of this process, which does not work with Spark Connect. Therefore,
while such a module is imported, PySpark's UDF functions return a `LateUdf`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from springline.spark_jobs.code.library_folders import library_folder

_MAKERS = ("udf", "pandas_udf", "arrow_udf", "udtf", "arrow_udtf")  # of pyspark.sql.functions
_PLATFORM = "springline"


class LateUdf:
    """A UDF that is created at each use, for the session that is active then."""

    def __init__(self, make: Callable[[], Any], function: Any) -> None:
        self._make = make
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *columns: Any, **named: Any) -> Any:
        return self._make()(*columns, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_make":  # for example while a copy is being constructed
            raise AttributeError(name)
        return getattr(self._make(), name)

    def asNondeterministic(self) -> LateUdf:
        """Like PySpark's method."""
        return LateUdf(lambda: self._make().asNondeterministic(), self.__wrapped__)  # type: ignore[attr-defined]

    def asDeterministic(self) -> LateUdf:
        """Like PySpark's method of table functions."""
        return LateUdf(lambda: self._make().asDeterministic(), self.__wrapped__)  # type: ignore[attr-defined]


class _LateMaker:
    """Replaces a PySpark function that creates UDFs, called or used as a decorator, with or without arguments.

    A module that imported it by name keeps it; in the version of an operation it counts as the original function.
    """

    def __init__(self, maker: Callable[..., Any]) -> None:
        self._maker = maker
        functools.update_wrapper(self, maker)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        function = next((each for each in (*arguments[:1], named.get("f"), named.get("cls")) if callable(each)), None)
        if function is not None:
            return LateUdf(lambda: self._maker(*arguments, **named), function)
        return lambda function: LateUdf(lambda: self._maker(*arguments, **named)(function), function)


@contextmanager
def late_udfs() -> Iterator[None]:
    """Make PySpark's functions and decorators that create UDFs return a `LateUdf` inside the context."""
    from pyspark.sql import functions
    from pyspark.sql.functions import builtin

    originals = {(module, name): getattr(module, name) for module in (functions, builtin) for name in _MAKERS}
    for (module, name), maker in originals.items():
        setattr(module, name, _LateMaker(maker))
    try:
        yield
    finally:
        for (module, name), maker in originals.items():
            setattr(module, name, maker)


def is_platform_module(module: str) -> bool:
    """Return whether a module of this name belongs to this platform, which is installed on Spark's servers."""
    return module.partition(".")[0] == _PLATFORM


def send_by_value(module: ModuleType) -> None:
    """Send the definitions of a module and its package, and the user code that they use, to Spark's workers by value.

    Otherwise a worker imports the module by name: a worker that lacks it fails, and one that imported it before keeps
    using the old code.
    """
    from pyspark.cloudpickle import register_pickle_by_value

    package = sys.modules[module.__name__.partition(".")[0]]
    pending, visited = [module, package], set[str]()
    while pending:
        each = pending.pop()
        if (
            each.__name__ not in visited
            and (each is package or _is_user_code(each))
            and not is_platform_module(each.__name__)
        ):
            visited.add(each.__name__)
            register_pickle_by_value(each)  # type: ignore[no-untyped-call]
            pending += _modules_of(each)


def _modules_of(module: ModuleType) -> Iterator[ModuleType]:
    """Yield the modules that a module's names refer to or come from."""
    for value in vars(module).values():
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if isinstance(name, str) and name in sys.modules:
            yield sys.modules[name]


def _is_user_code(module: ModuleType) -> bool:
    """Return whether a module is user code, not part of a library."""
    file = getattr(module, "__file__", None)
    return bool(file) and library_folder(Path(str(file)).resolve()) is None
