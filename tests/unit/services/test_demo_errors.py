"""A demo that fails ends with a few lines: what failed, what its log says, where that is, what to do; exit status 1."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from springline.persistence.errors import CatalogUnavailableError
from springline.services.airflow_api import TaskState
from springline.services.demo.failure import format_failure, log_of
from springline.services.demo.terminal import main
from springline.services.demo.workflow import check_servers
from springline.services.errors import NotReadyError, ServiceError
from springline.services.process.groups import start_time
from springline.services.process.run_state import ProcessRecord, ServerRecord, ServerRecords
from springline.services.supervisor import Supervisor

TRACE = "".join(f"  File 'scheduler.py', line {line}, in run\n" for line in range(200))
STALE = "sqlalchemy.orm.exc.StaleDataError: UPDATE statement on table 'dag_run' expected to update 1 row(s)"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path))


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    """The logs of Airflow's parts, each with a long traceback, and something harmless after it."""
    folder = tmp_path / "log" / "airflow"
    folder.mkdir(parents=True)
    for part in ("api-server", "scheduler", "dag-processor", "triggerer"):
        (folder / f"{part}.log").write_text(f"Traceback (most recent call last):\n{TRACE}{STALE}\n[info] bye\n")
    return sorted(folder.glob("*.log"))


def error_lines(capsys: pytest.CaptureFixture[str], error: Exception) -> list[str]:
    """The lines of a demo that ends with an error."""

    def run(console: Console) -> None:
        raise error

    with pytest.raises(SystemExit) as raised:
        main(run)
    assert raised.value.code == 1
    return capsys.readouterr().out.strip().splitlines()


def test_a_server_that_is_not_ready_is_reported_with_the_error_of_each_log(
    logs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Not with the ends of all logs, as its own command line does."""
    error = NotReadyError("airflow: not ready in time: not healthy: scheduler", logs)
    assert len(str(error).splitlines()) > 120
    message = error_lines(capsys, error)
    assert message[0] == "airflow: not ready in time: not healthy: scheduler"
    assert sum(STALE in line for line in message) == 4 and sum(line.startswith("    log: ") for line in message) == 4
    assert len(message) < 15


def test_a_server_that_has_ended_is_reported_with_the_process_that_has(
    logs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others go on, and say nothing."""
    alive = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        started_at = start_time(alive.pid) or 0.0
        times = {log: started_at - 100 * (log.stem == "scheduler") for log in logs}
        processes = tuple(ProcessRecord(log.stem, alive.pid, time, str(log)) for log, time in times.items())
        ServerRecords(tmp_path / "run").save(ServerRecord("airflow", "token", str(tmp_path), "", {}, processes))
        with pytest.raises(ServiceError) as raised:
            check_servers(Supervisor(tmp_path))
    finally:
        alive.kill()
        alive.wait()
    message = error_lines(capsys, raised.value)
    assert message[0] == "airflow is partly running; stopped: scheduler"
    assert STALE in message[1] and message[2].endswith("scheduler.log") and "make stop" in " ".join(message[3:])
    assert len(message) < 8


def test_tasks_that_failed_are_reported_in_a_few_lines(tmp_path: Path) -> None:
    """Task, exception and log of some; though an error of Spark is a page, and all tasks of three runs fail of it."""
    tasks = [TaskState(f"run{day}", f"2013-01-0{day}", task, "failed", 3) for day in (5, 6, 7) for task in ("a", "b")]
    detail = [{"exc_type": "SparkError", "exc_value": "it is away\n" + "at org.apache.spark\n" * 200}]
    entries = [{"level": "info", "event": "x"}, {"level": "error", "event": "failed", "error_detail": detail}]
    for task in tasks:
        log = log_of("etl", task, tmp_path)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("\n".join(["not JSON", *map(json.dumps, entries)]))
    message = format_failure("etl", [TaskState("run5", "2013-01-05", "load", "success", 1), *tasks], tmp_path)
    assert "a of 2013-01-05 failed at attempt 3" in message and str(log_of("etl", tasks[0], tmp_path)) in message
    assert "SparkError: it is away\n" in message and "org.apache" not in message
    assert "load" not in message.replace(str(tmp_path), "")
    assert "3 more tasks failed" in message and len(message.splitlines()) < 15


@pytest.mark.parametrize(
    "error",
    [CatalogUnavailableError("the catalog at x does not answer: refused; is it running?"), OSError(28, "No space")],
)
def test_no_error_ends_in_a_traceback(error: Exception, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of ours is its own sentence; an unexpected one has its traceback in a log that is named."""
    message = error_lines(capsys, error)
    assert "Traceback" not in " ".join(message) and len(message) < 5
    if isinstance(error, OSError):
        assert message[0] == "The demo itself failed: OSError: [Errno 28] No space"
        assert "Traceback" in (tmp_path / "log" / "demo" / "error.log").read_text()
    else:
        assert message == [str(error)]
