"""Python UDFs of a module with operations: they work wherever Spark is, and a wrong one fails at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.functions import builtin
from pyspark.sql.types import LongType

from springline.persistence.errors import OperationError
from springline.spark_jobs.code.code_version import code_version
from springline.spark_jobs.errors import FaultyOperationError
from springline.spark_jobs.operations import Context, OperationRegistry, load_operations
from springline.spark_jobs.runner import SparkRunner

MakeRunner = Callable[..., SparkRunner]

# All ways of making one, each before any session; the workers of the server can import neither module.
OF_ONES_OWN = '''
import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.functions import pandas_udf, udf
from pyspark.sql.types import LongType

from own_lib import plus_one
from own_registry import REGISTRY

FACTOR = 3


def helper(x):
    return plus_one(x * FACTOR)


@F.udf("long")
def by_text(x):
    """Three times x and one."""
    return helper(x)


@F.udf(LongType())
def by_type(x):
    return helper(x)


@F.udf(returnType="long")
def by_name(x):
    return helper(x)


@udf
def plain(x):
    return str(helper(x))


@pandas_udf("long")
def of_columns(x: pd.Series) -> pd.Series:
    return helper(x)


at_random = F.udf(lambda x: helper(x), "long").asNondeterministic()


@F.udtf(returnType="a: long")
class Rows:
    def eval(self, x):
        yield (helper(x),)


@REGISTRY.operation("own.udfs", output="own/{ds}/udfs")
def udfs(context):
    """Uses them all."""
    context.spark.udf.register("by_sql", by_text)
    columns = [by_text("id"), by_type("id"), by_name("id"), plain("id"), of_columns("id"), at_random("id")]
    numbers = context.spark.range(1, 3).select(*columns, F.expr("by_sql(id)"))
    return numbers.union(Rows(F.lit(3)).select(*["a"] * 7)).toDF(*"abcdefg")
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperationRegistry]:
    """The registry of a module of one's own, loaded by its name in a folder of one's own."""
    (tmp_path / "own_lib.py").write_text("def plus_one(x):\n    return x + 1\n")
    (tmp_path / "own_registry.py").write_text(
        "from springline.spark_jobs.operations import OperationRegistry\n\nREGISTRY = OperationRegistry()\n"
    )
    (tmp_path / "own_udfs.py").write_text(OF_ONES_OWN)
    monkeypatch.syspath_prepend(tmp_path)
    load_operations(["own_udfs"])
    yield sys.modules["own_registry"].REGISTRY
    for name in ("own_lib", "own_registry", "own_udfs"):
        del sys.modules[name]


def test_udfs_of_a_module_work_on_spark_connect(
    own: OperationRegistry, make_runner: MakeRunner, tmp_path: Path
) -> None:
    """However they were made, and with all that they refer to, of whichever module."""
    runner = make_runner(own)
    runner.run(runner.call("own.udfs", {"ds": "1"}), [], f"file://{tmp_path}/out")
    rows = runner.sessions.get().read.parquet(f"file://{tmp_path}/out").sort("a").collect()
    assert [tuple(row) for row in rows] == [(number,) * 7 for number in (4, 7, 10)]


def test_the_version_of_an_operation_follows_its_udfs(own: OperationRegistry, tmp_path: Path) -> None:
    """Another factor is another version, though only UDFs refer to it."""
    before = own.get("own.udfs").version
    module = tmp_path / "own_udfs.py"
    module.write_text(OF_ONES_OWN.replace("FACTOR = 3", "FACTOR = 4"))
    for name in ("own_registry", "own_udfs"):
        del sys.modules[name]
    load_operations(["own_udfs"])
    assert sys.modules["own_registry"].REGISTRY.get("own.udfs").version != before
    assert sys.modules["own_udfs"].by_text.__doc__ == "Three times x and one."


def test_pyspark_is_as_it_was_once_a_module_is_loaded(own: OperationRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever makes a UDF afterwards gets PySpark's own; versions do not depend on how a module was loaded."""
    assert F.udf is builtin.udf and isinstance(F.udf, FunctionType)
    module = sys.modules["own_udfs"]
    version = code_version(module.udfs)
    assert module.udf is not F.udf
    monkeypatch.setattr(module, "udf", F.udf)
    assert code_version(module.udfs) == version


def faulty_udf(error: str) -> Callable[..., Any]:
    """A UDF whose code is that of a module which no worker can import."""
    scope: dict[str, Any] = {}
    exec(f"def raising(x):\n    {error}", scope)
    return F.udf(scope["raising"], "long")


@pytest.mark.parametrize(
    ("body", "faulty", "expected_message"),
    [
        (lambda ids: ids.select(F.col("nothing")), True, "AnalysisException.*nothing"),
        (lambda ids: ids.select(F.col("id") + F.array(F.lit(1))), True, "DATATYPE_MISMATCH"),
        (lambda ids: ids.selectt("id"), True, "not callable"),
        (lambda ids: ids.where("id < 0").agg(F.sum("id").alias("sum")).first()["sum"] + 1, True, "TypeError"),
        (lambda ids: ids.sparkSession.read.parquet("file:///tmp/no/such/table"), False, "PATH_NOT_FOUND"),
        (lambda ids: ids.select(F.raise_error(F.lit("no disk")).cast("int").alias("id")), False, "no disk"),
        (lambda ids: ids.select(faulty_udf("nothing_is_called_so")("id")), True, "nothing_is_called_so"),
        (
            lambda ids: ids.select(faulty_udf("raise OSError('TypeError: away')")("id")),
            False,
            "OSError: TypeError: away",
        ),
        (lambda ids: ids.select(F.udf(lambda x: sys.stdout.buffer and OPEN, "long")("id")), True, "cannot pickle"),
        (lambda ids: ids.rdd, True, "rdd is not implemented"),
        (lambda ids: ids.where(F.col("id") > 1 and F.col("id") < 2), True, "please use '&' for 'and'"),
        (lambda ids: ids.select((F.lit(1) / (F.col("id") - F.col("id"))).alias("a")), True, "DIVIDE_BY_ZERO"),
        (lambda ids: ids.select(F.concat(F.lit("x"), "id").cast("int").alias("a")), True, "CAST_INVALID_INPUT"),
    ],
)
def test_wrong_code_fails_at_once_with_operation_parameters_and_cause(
    make_runner: MakeRunner, tmp_path: Path, body: Callable[[DataFrame], DataFrame], faulty: bool, expected_message: str
) -> None:
    """It would fail again; what Spark or a worker could not read may be there at the next try."""
    with pytest.raises(OperationError, match=rf"(?s)^operation tried \(ds=1\): .*{expected_message}") as caught:
        run(make_runner, tmp_path, lambda context: body(context.spark.range(3)))
    assert isinstance(caught.value, FaultyOperationError) is faulty


EARLY: Any = None


def test_a_udf_that_was_made_for_another_spark_is_wrong_code_and_says_the_remedy(
    make_runner: MakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one is in a module that was imported before SPRINGLINE_OPERATIONS imported it."""
    with monkeypatch.context() as without_connect:
        without_connect.delenv("SPARK_CONNECT_MODE_ENABLED")
        early = F.udf(lambda x: x, LongType())
    monkeypatch.setattr(sys.modules[__name__], "EARLY", early)
    with pytest.raises(
        FaultyOperationError, match=r"SESSION_OR_CONTEXT_NOT_EXISTS.*only through SPRINGLINE_OPERATIONS"
    ):
        run(make_runner, tmp_path, lambda context: context.spark.range(3).select(EARLY("id")))


OPEN = sys.stdout


def run(make_runner: MakeRunner, folder: Path, body: Callable[[Context], DataFrame]) -> None:
    """Run an operation with this body on the server."""
    registry = OperationRegistry()

    @registry.operation("tried", output="n/{ds}/tried")
    def tried(context: Context) -> DataFrame:
        return body(context)

    runner = make_runner(registry)
    runner.run(runner.call("tried", {"ds": "1"}), [], f"file://{folder}/out")
