"""Python UDFs of modules with operations: made where they are used, and sent to Spark with their code.

PySpark makes a UDF for the kind of session that there is when its line runs. A module's own lines run when it is
imported: in Airflow's DAG processor, where there is no session, and in a task before its session. There
`@F.udf("long")` cannot be made at all, and `@F.udf(LongType())` is made for a session of this process, which Spark
Connect is none of. So, while such a module is imported, what it calls a UDF is a `LateUdf`.
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
    """A UDF that is made at each use, for the session that is active then."""

    def __init__(self, make: Callable[[], Any], function: Any) -> None:
        self._make = make
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *columns: Any, **named: Any) -> Any:
        return self._make()(*columns, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_make":  # of a copy that is just being made, say
            raise AttributeError(name)
        return getattr(self._make(), name)

    def asNondeterministic(self) -> LateUdf:
        """As PySpark's."""
        return LateUdf(lambda: self._make().asNondeterministic(), self.__wrapped__)  # type: ignore[attr-defined]

    def asDeterministic(self) -> LateUdf:
        """As PySpark's, of a table function."""
        return LateUdf(lambda: self._make().asDeterministic(), self.__wrapped__)  # type: ignore[attr-defined]


class _LateMaker:
    """What stands for a function of PySpark's that makes UDFs, called or as a decorator, with arguments or without.

    A module that imported it by name keeps it; for the version of an operation it is the function that it stands for.
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
    """Within, PySpark's functions and decorators that make UDFs make a `LateUdf`."""
    from pyspark.sql import functions
    from pyspark.sql.functions import builtin

    own = {(module, name): getattr(module, name) for module in (functions, builtin) for name in _MAKERS}
    for (module, name), maker in own.items():
        setattr(module, name, _LateMaker(maker))
    try:
        yield
    finally:
        for (module, name), maker in own.items():
            setattr(module, name, maker)


def is_platform(module: str) -> bool:
    """Whether a module of this name is of this platform, which Spark's servers have."""
    return module.partition(".")[0] == _PLATFORM


def send_by_value(module: ModuleType) -> None:
    """Have what a module and its package define sent to Spark's workers as it is here, and what they use of one's own.

    Otherwise a worker imports the module by its name: one that lacks it fails, and one that imported it before goes on
    with the old code.
    """
    from pyspark.cloudpickle import register_pickle_by_value

    package = sys.modules[module.__name__.partition(".")[0]]
    waiting, known = [module, package], set[str]()
    while waiting:
        each = waiting.pop()
        if each.__name__ not in known and (each is package or _is_ones_own(each)) and not is_platform(each.__name__):
            known.add(each.__name__)
            register_pickle_by_value(each)  # type: ignore[no-untyped-call]
            waiting += _modules_of(each)


def _modules_of(module: ModuleType) -> Iterator[ModuleType]:
    """The modules that a module's names stand for, or come from."""
    for value in vars(module).values():
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if isinstance(name, str) and name in sys.modules:
            yield sys.modules[name]


def _is_ones_own(module: ModuleType) -> bool:
    """Whether a module lies outside of Python's libraries."""
    file = getattr(module, "__file__", None)
    return bool(file) and library_folder(Path(str(file)).resolve()) is None
