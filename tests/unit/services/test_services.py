"""Servers are started in sessions of their own, known by their start time, and ended with all that they started."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from springline.services.errors import (
    DataExistsError,
    NotReadyError,
    PortInUseError,
    RunStateError,
    SettingsChangedError,
)
from springline.services.process.groups import Termination, is_leader, members, orphaned_processes, terminate
from springline.services.process.ports import free_ports, is_free
from springline.services.process.run_state import ProcessRecord, ServerRecord, ServerRecords
from springline.services.server import InitStep, Process, Server
from springline.services.supervisor import StopResult
from tests.support.waiting import until

# A server with a child in a process group of its own, as Airflow's running tasks and Spark's workers have.
SERVING = """
import http.server, os, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()
"""
SLEEP = "import time; time.sleep(600)"
STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "w").close()
time.sleep(600)
"""


def answers(port: int) -> str:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
    except OSError as error:
        return str(error)
    return ""


def make_server(home: Path, *command: str, port: int | None = None) -> Server:
    """A small server; by default one that serves on `port`."""
    port = port or free_ports()
    command = command or (sys.executable, "-c", SERVING, str(port))
    return Server(
        name="small",
        address=f"http://127.0.0.1:{port}",
        folder=home / "small",
        processes=(Process("main", command),),
        environment={"COLOUR": "green"},
        ports={"SPRINGLINE_SMALL_PORT": port},
        readiness_problem=lambda: answers(port),
    )


def test_a_server_is_ended_with_all_that_it_started(supervisor, tmp_path):
    """A child in another process group of the same session ends too, and the port is free again."""
    server = make_server(tmp_path)
    supervisor.up([server], patience=60)
    record = ServerRecords(tmp_path / "run").load("small")
    processes = members(record)
    assert len(processes) == 2
    assert supervisor.status("small").is_running
    assert supervisor.down("small", 10.0) is StopResult.ENDED
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)
    assert supervisor.status("small").state == "stopped"
    assert is_free(server.ports["SPRINGLINE_SMALL_PORT"])


def test_a_child_that_outlives_its_leader_is_ended_too(supervisor, tmp_path):
    """After kill -9 of the leader, its child is still known by the server's folder, and ended."""
    supervisor.up([make_server(tmp_path)], patience=60)
    record = ServerRecords(tmp_path / "run").load("small")
    leader = psutil.Process(record.processes[0].pid)
    child = next(process for process in members(record) if process.pid != leader.pid)
    leader.kill()
    leader.wait(10)
    assert "stopped: main" in supervisor.status("small").state
    assert supervisor.down("small", 10.0)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_a_server_that_ignores_the_request_is_killed(supervisor, tmp_path):
    """SIGTERM first, SIGKILL when the patience is over."""
    mark = tmp_path / "mark"
    server = replace(
        make_server(tmp_path, sys.executable, "-c", STUBBORN, str(mark)),
        readiness_problem=lambda: "" if mark.exists() else "no mark yet",
    )
    supervisor.up([server], patience=60)
    assert supervisor.down("small", 0.2) is StopResult.KILLED
    assert supervisor.status("small").state == "stopped"


def test_a_process_that_bears_a_used_id_again_is_left_alone(tmp_path):
    """A record whose start time is another than the living process's names a stranger."""
    stranger = psutil.Popen([sys.executable, "-c", SLEEP], start_new_session=True)
    try:
        started = ProcessRecord("main", stranger.pid, stranger.create_time() - 100, "log")
        record = ServerRecord("small", "token", str(tmp_path), "", {}, (started,))
        assert not is_leader(started)
        assert members(record) == ()
        assert terminate(record, 0.0) == Termination()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_busy_port_is_named_with_its_holder_and_the_setting(supervisor, tmp_path):
    """Nothing is started, and the error says what to stop or what to set, also for a port beside the setting's own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        server = replace(make_server(tmp_path), ports={"SPRINGLINE_SMALL_PORT + 2": port})
        with pytest.raises(PortInUseError, match=rf"port {port} is taken .*another port: SPRINGLINE_SMALL_PORT="):
            supervisor.up([server], patience=1)
    assert supervisor.started_servers() == ()


def test_a_server_that_lost_its_record_is_named_with_the_command_that_ends_it(supervisor, tmp_path):
    """As when the home is removed under it: the command ends all that it has started, and it can be started again."""
    server = make_server(tmp_path)
    supervisor.up([server], patience=60)
    pid = ServerRecords(tmp_path / "run").load("small").processes[0].pid
    groups = {os.getpgid(process.pid) for process in members(ServerRecords(tmp_path / "run").load("small"))}
    assert len(groups) == 2
    shutil.rmtree(tmp_path)
    try:
        with pytest.raises(PortInUseError) as refused:
            supervisor.up([server], patience=1)
        message, _, command = str(refused.value).partition("Stop the remaining processes: ")
        assert f"(by process {pid}: " in message and f"(kill {pid})" in message and "has no record in" in message
        assert command == f"kill -- {' '.join(f'-{group}' for group in sorted(groups))}"
        subprocess.run(["bash", "-c", command], check=True)
        until(lambda: not supervisor.orphaned_processes(), seconds=10)
    finally:
        for group in groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
    until(lambda: is_free(server.ports["SPRINGLINE_SMALL_PORT"]), seconds=10)  # a killed process may end a moment later
    supervisor.up([server], patience=60)
    assert supervisor.down("small", 10.0)


def test_what_other_homes_have_started_is_not_taken_for_left_over(supervisor, tmp_path):
    """Nor what is recorded here."""
    supervisor.up([make_server(tmp_path)], patience=60)
    token = ServerRecords(tmp_path / "run").load("small").token
    assert orphaned_processes(tmp_path / "other", ()) == () == orphaned_processes(tmp_path, {token})
    assert {process.pid for process in orphaned_processes(tmp_path, ())} >= {
        each.pid for each in ServerRecords(tmp_path / "run").load("small").processes
    }


def test_a_stranger_that_took_the_port_meanwhile_does_not_pass_for_the_server(supervisor, tmp_path):
    """Another process that answers on the port is named; what was started is ended."""
    strangers = []

    def a_stranger_answers() -> str:
        strangers.append(socket.create_server(("127.0.0.1", port)))
        return ""

    port = free_ports()
    idle = make_server(tmp_path, sys.executable, "-c", SLEEP, port=port)
    with pytest.raises(PortInUseError, match=f"port {port} is taken .*SPRINGLINE_SMALL_PORT"):
        supervisor.up([replace(idle, readiness_problem=a_stranger_answers)], patience=10)
    strangers[0].close()
    assert supervisor.started_servers() == ()


@pytest.mark.parametrize(
    ("code", "patience", "reason"),
    [("raise SystemExit('the disk is on fire')", 60, "the disk is on fire"), (SLEEP, 0.1, "the quorum is missing")],
)
def test_a_server_that_ends_or_is_not_ready_in_time_is_refused(supervisor, tmp_path, code, patience, reason):
    """The last lines of its log, or what was missing, are in the error, and nothing is left behind."""
    server = make_server(tmp_path, sys.executable, "-c", code)
    with pytest.raises(NotReadyError, match=reason):
        supervisor.up([replace(server, readiness_problem=lambda: "the quorum is missing")], patience=patience)
    assert supervisor.started_servers() == ()


def test_starting_twice_starts_once(supervisor, tmp_path):
    """A server that runs is left as it is; asked for on another port it is an error that names both."""
    server = make_server(tmp_path)
    supervisor.up([server], patience=60)
    before = supervisor.status("small").processes
    supervisor.up([server], patience=60)
    assert supervisor.status("small").processes == before
    with pytest.raises(SettingsChangedError, match="SPRINGLINE_SMALL_PORT"):
        supervisor.up([make_server(tmp_path)], patience=1)
    assert supervisor.status("small").is_running


def test_what_must_run_once_runs_once(supervisor, tmp_path):
    """The first command is not run again once it ended well, and fails the start if it does not."""
    script = "import sys; open(sys.argv[1], 'a').write('x')"
    once = InitStep("format", (sys.executable, "-c", script, str(tmp_path / "runs")), tmp_path / "small" / "formatted")
    server = replace(make_server(tmp_path), init_steps=(once,))
    for _ in range(2):
        supervisor.up([server], patience=60)
        supervisor.down("small", 10.0)
    assert (tmp_path / "runs").read_text() == "x"
    failing = replace(once, command=(sys.executable, "-c", "raise SystemExit('no space')"), stamp=tmp_path / "no")
    with pytest.raises(NotReadyError, match="no space"):
        supervisor.up([replace(server, init_steps=(failing,))], patience=60)


def making(folder: Path, script: str = "sys.exit(0)") -> InitStep:
    """A command that makes `folder / data` if it is not there, writes into it, and goes on as `script` says."""
    data = folder / "data"
    code = f"import os, sys; os.mkdir({str(data)!r}); open({str(data / 'half')!r}, 'w').close(); {script}"
    return InitStep("format", (sys.executable, "-c", code), folder / "formatted", output_folder=data)


def test_a_first_start_that_was_cut_short_starts_over(supervisor, tmp_path):
    """Its half-made folder is removed; once it is whole no mark of a first start is left."""
    server = make_server(tmp_path)
    with pytest.raises(NotReadyError, match="no space"):
        supervisor.up([replace(server, init_steps=(making(server.folder, "sys.exit('no space')"),))], patience=60)
    (server.folder / "data" / "left").touch()
    supervisor.up([replace(server, init_steps=(making(server.folder),))], patience=60)
    assert sorted(each.name for each in server.folder.iterdir()) == ["data", "formatted"]
    assert [each.name for each in (server.folder / "data").iterdir()] == ["half"]


def test_data_whose_stamp_is_missing_are_not_destroyed(supervisor, tmp_path):
    """The error names the folder, the file that is missing, and what to do; done, the server starts with its data."""
    server = make_server(tmp_path)
    server = replace(server, init_steps=(making(server.folder),))
    supervisor.up([server], patience=60)
    supervisor.down("small", 10.0)
    stamp = server.folder / "formatted"
    stamp.unlink()
    (server.folder / "data" / "precious").touch()
    message = rf"small: {server.folder}/data contains data.*create that file: touch {stamp}\n"
    with pytest.raises(DataExistsError, match=message):
        supervisor.up([server], patience=60)
    assert sorted(each.name for each in (server.folder / "data").iterdir()) == ["half", "precious"]
    stamp.touch()
    supervisor.up([server], patience=60)
    assert (server.folder / "data" / "precious").exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"processes": [1]}'])
def test_a_damaged_record_is_an_error_that_names_its_file(tmp_path, content):
    """The process that it recorded may still run: it is not taken for a server that does not."""
    records = ServerRecords(tmp_path)
    records.path("small").write_text(content)
    message = r"small\.json: .* cannot be read: .*: stop small if it is running, and remove that file"
    with pytest.raises(RunStateError, match=message):
        records.load("small")
