"""Running and producing: failures are named, a server that died is come back to, retries adopt."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from springline.cli import main
from springline.persistence.errors import OperationError
from springline.persistence.model.dataset import Call, Origin, Phase, Strategy
from springline.persistence.platform import Platform
from springline.spark_jobs.errors import JobError, LandingError, QualityError
from springline.spark_jobs.landing import Landing, LandingFile, land, write_manifest
from springline.spark_jobs.materialize import materialize
from springline.spark_jobs.operations import Context, OperationRegistry
from springline.spark_jobs.runner import SparkRunner
from springline.spark_jobs.settings import JobSettings
from tests.spark.conftest import EMPTY, SNOW, Workflow
from tests.support.servers.spark_server import SparkServer

MakeRunner = Callable[..., SparkRunner]
OpenPlatform = Callable[[SparkRunner], Platform]


@pytest.fixture
def numbers() -> OperationRegistry:
    """Three operations over numbers: some are made, doubled, summed."""
    registry = OperationRegistry()

    @registry.operation("make", output="n/{ds}/some", idempotent=False)
    def make(context: Context) -> DataFrame:
        return context.spark.range(int(context.params["ds"]))

    @registry.operation("double", sources={"some": "n/{ds}/some"}, output="n/{ds}/doubled", temporary=True)
    def double(context: Context, some: DataFrame) -> DataFrame:
        return some.select((F.col("id") * 2).alias("id"))

    @registry.operation("sum", sources={"doubled": "n/{ds}/doubled"}, output="n/{ds}/sum", checkpoint=True)
    def sum_(context: Context, doubled: DataFrame) -> DataFrame:
        return doubled.agg(F.sum("id").alias("total"))

    return registry


# ---- running


def test_a_run_says_rows_digest_and_seconds(
    make_runner: MakeRunner, numbers: OperationRegistry, tmp_path: Path
) -> None:
    """What the catalog records of it."""
    runner = make_runner(numbers)
    result = runner.run(runner.call("make", {"ds": "7"}), [], f"file://{tmp_path}/out")
    assert (result.rows, result.report) == (7, None)
    assert result.digest.startswith("table1:9:7:")
    assert result.seconds > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (Call("make", "old", {"ds": "7"}), r"operation make: its code has version .*, but old is requested"),
        (Call("mine.own", "1", {}), r"mine\.own is not registered.*SPRINGLINE_OPERATIONS"),
    ],
)
def test_code_that_is_not_here_is_not_run(
    make_runner: MakeRunner, numbers: OperationRegistry, tmp_path: Path, call: Call, message: str
) -> None:
    """The recorded call asks for another version, or for an operation of a module that a setting would name."""
    with pytest.raises(OperationError, match=message):
        make_runner(numbers).run(call, [], f"{tmp_path}/out")


@pytest.fixture
def flights(landing: Path, tmp_path: Path) -> Path:
    """The flights of a landing folder that a test may spoil."""
    shutil.copytree(landing, tmp_path / "landing")
    return tmp_path / "landing" / SNOW / "flights.csv"


def test_a_truncated_landing_file_ends_the_load(make_runner: MakeRunner, flights: Path, tmp_path: Path) -> None:
    """Also where it was cut at the end of a line; the error is that of the file, and nothing is written."""
    flights.write_bytes(b"".join(flights.read_bytes().splitlines(keepends=True)[:-10]))
    runner = make_runner(landing_uri=str(tmp_path / "landing"))
    with pytest.raises(LandingError, match=r"flights\.csv: truncated file"):
        runner.run(runner.call("etl.load_flights", {"ds": SNOW}), [], f"{tmp_path}/out")
    assert not (tmp_path / "out").exists()


def test_a_row_of_too_few_fields_ends_the_load(make_runner: MakeRunner, flights: Path, tmp_path: Path) -> None:
    """In the midst of a file that its sender vouched for, where only the reader can see it."""
    lines = flights.read_text().splitlines(keepends=True)
    flights.write_text("".join([*lines[:5], "2013,2,8,short\n", *lines[5:]]))
    write_manifest(LandingFile.at(str(flights)))
    runner = make_runner(landing_uri=str(tmp_path / "landing"))
    with pytest.raises(OperationError, match=r"(?s)operation etl\.load_flights \(ds=2013-02-08\).*flights\.csv"):
        runner.run(runner.call("etl.load_flights", {"ds": SNOW}), [], f"{tmp_path}/out")


# ---- producing


def test_producing_reads_the_newest_and_records_the_lineage(
    make_runner: MakeRunner, open_spark_platform: OpenPlatform, numbers: OperationRegistry
) -> None:
    """Exact generations, the call, the strategy and the marks."""
    platform = open_spark_platform(make_runner(numbers))
    for _ in range(2):
        materialize(platform, "make", {"ds": "4"})
    doubled = materialize(platform, "double", {"ds": "4"}, strategy=Strategy.ASYNC_STORE)
    total = materialize(platform, "sum", {"ds": "4"})
    assert [str(source) for source in doubled.sources] == ["n/4/some@2"]
    assert (doubled.strategy, doubled.persist_requested, total.checkpoint) == (Strategy.ASYNC_STORE, False, True)
    assert total.call == Call("sum", numbers.get("sum").version, {"ds": "4"})
    with platform.store.read("n/4/sum") as reading:
        runner = platform.runner
        assert isinstance(runner, SparkRunner)
        assert runner.sessions.get().read.parquet(reading.uri).collect()[0]["total"] == 12


def test_datasets_and_landing_folders_may_have_names_of_any_script(
    make_runner: MakeRunner, open_spark_platform: OpenPlatform, landing: Path, tmp_path: Path
) -> None:
    """Spaces, accents, other scripts and a percent sign, all the way through Spark and back."""
    name = "Zürich été 北京 100%20"
    shutil.copytree(landing / SNOW, tmp_path / "landing" / name)
    platform = open_spark_platform(make_runner(landing_uri=str(tmp_path / "landing")))
    loaded = materialize(platform, "etl.load_flights", {"ds": name})
    parsed = materialize(platform, "etl.parse", {"ds": name})
    assert (loaded.ref.path, parsed.rows) == (f"etl/{name}/load_flights", 930)


def test_a_retry_adopts_what_its_failed_try_had_committed(
    make_runner: MakeRunner, open_spark_platform: OpenPlatform, numbers: OperationRegistry
) -> None:
    """The same task of the same DAG run; another DAG run makes its own."""
    platform = open_spark_platform(make_runner(numbers))
    first = Origin("dag", "monday", "make")
    dataset = materialize(platform, "make", {"ds": "4"}, origin=first)
    assert materialize(platform, "make", {"ds": "4"}, origin=first).ref == dataset.ref
    assert materialize(platform, "make", {"ds": "4"}, origin=Origin("dag", "tuesday", "make")).ref != dataset.ref


def test_a_lost_source_is_brought_back_first(
    make_runner: MakeRunner, open_spark_platform: OpenPlatform, numbers: OperationRegistry
) -> None:
    """What its operation makes again is proved by its digest."""
    platform = open_spark_platform(make_runner(numbers))
    materialize(platform, "make", {"ds": "4"})
    doubled = materialize(platform, "double", {"ds": "4"})
    platform.cache.delete(doubled.cache_location)
    materialize(platform, "sum", {"ds": "4"})
    record = platform.catalog.get(doubled.ref)
    assert record.in_cache
    assert platform.cache.exists(record.cache_location)


def test_a_run_that_the_gate_stops_commits_nothing(
    workflow: Workflow, make_runner: MakeRunner, open_spark_platform: OpenPlatform
) -> None:
    """Its mode is a parameter, so it is recorded with what it made."""
    assert workflow.datasets[SNOW]["accepted"].call is not None
    assert workflow.datasets[SNOW]["accepted"].call.params == {"ds": SNOW, "quality": "quarantine"}
    with pytest.raises(QualityError, match=f"the flights of {SNOW}: the quality gate stopped the run"):
        materialize(workflow.platform, "etl.accepted", {"ds": SNOW, "quality": "stop"})
    newest = workflow.platform.catalog.find(path=f"etl/{SNOW}/accepted", limit=1)[0]
    assert newest.phase is Phase.ABANDONED
    with workflow.platform.store.read(f"etl/{SNOW}/accepted") as reading:
        assert reading.ref == workflow.datasets[SNOW]["accepted"].ref


def test_a_platform_without_spark_says_so(platform: Platform) -> None:
    """With the setting that gives it one."""
    with pytest.raises(JobError, match=r"SPRINGLINE_RUNNER=springline\.spark_jobs\.runner:make_runner"):
        materialize(platform, "make", {"ds": "4"})


# ---- command line


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, job_settings: JobSettings, tmp_path: Path) -> None:
    """The environment of a person who works in this test's folder."""
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SPRINGLINE_CACHE_URI", f"file://{tmp_path}/cache")
    monkeypatch.setenv("SPRINGLINE_SPARK_REMOTE", job_settings.spark_remote)
    monkeypatch.setenv("SPRINGLINE_LANDING_URI", str(tmp_path / "home" / "landing"))


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run `springline` in this process; the exit code."""
    monkeypatch.setattr(sys, "argv", ["springline", *arguments])
    with pytest.raises(SystemExit) as exit_info:
        main()
    return int(exit_info.value.code or 0)


@pytest.mark.usefixtures("environment")
def test_the_command_line_lands_a_day_and_runs_operations(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Each by name, in the order given; --json gives what was made."""
    assert command(monkeypatch, "landing", "generate", "--days", SNOW) == 0
    assert "flights.csv: " in capsys.readouterr().out
    land([date.fromisoformat(EMPTY)], Landing(str(tmp_path / "home" / "landing")))
    assert command(monkeypatch, "run", "etl.load_flights", "etl.parse", "--ds", EMPTY, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(one["dataset"], one["rows"]) for one in rows] == [
        (f"etl/{EMPTY}/load_flights@1", 0),
        (f"etl/{EMPTY}/parse@1", 0),
    ]


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    ("arguments", "expected_message", "status"),
    [
        (("run", "etl.parse", "--ds", EMPTY), "load_flights", 2),
        (("run", "etl.load_flights", "--ds", EMPTY), "springline landing generate", 1),
        (("run", "etl.laod", "--ds", EMPTY), "unknown operation 'etl.laod'", 2),
        (("run", "--ds", EMPTY), "give operations to run, or --all", 2),
        (("run", "etl.parse", "--ds", "2013-3-2"), "'2013-3-2' is not a date: write it as 2013-01-05", 2),
        (("landing", "generate", "--days", "yesterday"), "'yesterday' is not a date: write it as 2013-01-05", 2),
        (("landing", "generate", "--days", "2031-01-05"), "no flights of 2031-01-05: use days of 2013", 2),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    expected_message: str,
    status: int,
) -> None:
    """On stderr; the exit status is 2 where the command was misused, 1 where something failed."""
    assert command(monkeypatch, *arguments) == status
    error = capsys.readouterr().err
    assert error.startswith("springline: ") and error.count("\n") == 1 and expected_message in error


def test_operations_of_one_s_own_are_listed_with_the_workflow_s(tmp_path: Path) -> None:
    """A module named in SPRINGLINE_OPERATIONS registers them; they may read what the workflow makes."""
    (tmp_path / "my_pipeline.py").write_text(
        "from springline.spark_jobs.operations import operation\n"
        "@operation('mine.count', sources={'accepted': 'etl/{ds}/accepted'}, output='mine/{ds}/count')\n"
        "def count(context, accepted):\n    '''Counts.'''\n    return accepted.groupBy().count()\n"
    )
    own_settings = {"PYTHONPATH": str(tmp_path), "SPRINGLINE_OPERATIONS": "springline.spark_jobs.etl,my_pipeline"}
    command_line = [sys.executable, "-m", "springline", "operation", "list", "--json"]
    printed = subprocess.check_output(command_line, env={**os.environ, **own_settings})
    own = json.loads(printed)[-1]
    assert (own["name"], own["after"], own["doc"]) == ("mine.count", ["etl.accepted"], "Counts.")


def test_a_master_url_by_setting_alone_gives_the_same(
    workflow: Workflow, job_settings: JobSettings, tmp_path: Path
) -> None:
    """Spark inside the process instead of a server: the same digests."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")} | {
        "SPRINGLINE_HOME": str(tmp_path / "home"),
        "SPRINGLINE_CACHE_URI": f"file://{tmp_path}/cache",
        "SPRINGLINE_LANDING_URI": job_settings.landing_address,
        "SPRINGLINE_SPARK_MASTER": "local[2]",
    }
    environment.pop("SPRINGLINE_SPARK_REMOTE", None)
    names = ("load_flights", "parse")
    command_line = [sys.executable, "-m", "springline", "run", *(f"etl.{name}" for name in names)]
    completed_process = subprocess.run(
        [*command_line, "--ds", SNOW, "--json"], env=environment, capture_output=True, text=True
    )
    assert completed_process.returncode == 0, completed_process.stderr[-2000:]
    assert {one["operation"]: one["digest"] for one in json.loads(completed_process.stdout)} == {
        f"etl.{name}": workflow.datasets[SNOW][name].digest for name in names
    }


# ---- another thread ends a run

STARTED = threading.Event()  # of the module: an operation has a version only if the values of its closure have one


def test_a_run_that_another_thread_interrupts_fails_and_the_next_one_goes_well(
    make_runner: MakeRunner, tmp_path: Path
) -> None:
    """A proof gives way so; the session is as good as before.

    Spark may lose an interruption that comes while it plans; then the operation goes on to its end, and is tried again.
    """
    registry = OperationRegistry()
    over = threading.Event()

    @registry.operation("endless", output="n/{ds}/endless")
    def endless(context: Context) -> DataFrame:
        STARTED.set()
        # Spark ends a stage between its tasks: each is short, and all of them take longer than an interruption.
        rows, tasks = (10**9, 200) if context.params["ds"] == "1" else (10, 1)
        return context.spark.range(0, rows, 1, tasks).selectExpr("id % 7 AS k").groupBy("k").count()

    runner = make_runner(registry)

    def interrupt() -> None:
        STARTED.wait(60)
        while not over.wait(0.2):  # until what it was to end has ended: between two parts of a run nothing is there
            runner.interrupt()

    def is_interrupted(out: Path) -> bool:
        STARTED.clear()
        over.clear()
        watch = threading.Thread(target=interrupt)
        watch.start()
        try:
            runner.run(runner.call("endless", {"ds": "1"}), [], out.as_uri())
        except OperationError:
            return True
        finally:
            over.set()
            watch.join()
        return False

    assert any(is_interrupted(tmp_path / f"out-{number}") for number in range(4))
    runner.interrupt()
    assert runner.run(runner.call("endless", {"ds": "2"}), [], f"file://{tmp_path}/out2").rows == 7


# ---- a fault; last, since the server that comes back is slow at first


SERVERS: list[SparkServer] = []  # of the module, as `STARTED`


def test_a_server_that_dies_under_an_operation_is_come_back_to(
    make_runner: MakeRunner, spark_server: SparkServer, tmp_path: Path
) -> None:
    """kill -9 after the first half was written: the operation runs once more, on the server that was started again."""
    registry = OperationRegistry()
    SERVERS[:] = [spark_server]
    tries: list[str] = []
    out = tmp_path / "out"

    @registry.operation("fragile", output="n/{ds}/fragile")
    def fragile(context: Context) -> DataFrame:
        tries.append(context.spark.session_id)  # type: ignore[attr-defined]
        frame = context.spark.range(10)
        if len(tries) == 1:
            frame.write.parquet(f"file://{out}")
            SERVERS[0].kill()
            SERVERS[0].start()
        return frame

    runner = make_runner(registry)
    result = runner.run(runner.call("fragile", {"ds": "1"}), [], f"file://{out}")
    assert result.rows == 10
    assert len(set(tries)) == 2
    assert runner.sessions.get().read.parquet(str(out)).count() == 10
