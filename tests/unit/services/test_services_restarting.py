"""Of a server that lost a process, only that one is started again; servers are started in the order of their needs."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from springline.services.errors import NotReadyError, UnknownServerError
from springline.services.process.groups import start_time
from springline.services.process.ports import free_ports, is_free, listener
from springline.services.server import Process, Server
from springline.services.supervisor import Supervisor
from tests.support.waiting import until

SLEEPING = "import time; time.sleep(600)"
# Has a child in a session of its own, as PostgreSQL's are.
WITH_CHILD = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
time.sleep(600)
"""
# Ends well on SIGINT alone, and says so.
POLITE = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, lambda *_: sys.exit(pathlib.Path("said goodbye").touch()))
pathlib.Path("ready").touch()
time.sleep(600)
"""

# Its first thread ends, and another one goes on listening.
PARTLY_ENDED = """
import ctypes, socket, threading, time
listening = socket.create_server(("127.0.0.1", {port}))
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def pair(home: Path, *, second: str = SLEEPING, name: str = "pair") -> Server:
    """A server of two processes that listen nowhere."""
    codes = {"first": SLEEPING, "second": second}
    processes = tuple(Process(each, (sys.executable, "-c", code)) for each, code in codes.items())
    return Server(name, "nowhere", home / name, processes, environment={}, ports={}, readiness_problem=lambda: "")


def test_only_the_process_that_ended_is_started_again(supervisor, tmp_path):
    """The other one keeps its id; a process that no server has is named, with those that were started."""
    server = pair(tmp_path)
    supervisor.up([server], patience=60)
    with pytest.raises(UnknownServerError, match="pair has no process 'third'; its processes: first, second"):
        supervisor.kill("pair", "third")
    with pytest.raises(UnknownServerError, match="none"):
        supervisor.kill("nobody", "first")
    before = supervisor.status("pair").processes
    supervisor.kill("pair", "second")
    assert supervisor.status("pair").state == "partly running; stopped: second"
    supervisor.up([server], patience=60)
    after = supervisor.status("pair").processes
    assert supervisor.status("pair").is_running
    assert after["first"] == before["first"]
    assert after["second"] != before["second"]


def test_what_ran_before_stays_when_the_rest_cannot_be_started(supervisor, tmp_path):
    """The error shows the log of the one that ended, and `status` shows that it is missing."""
    supervisor.up([pair(tmp_path)], patience=60)
    before = supervisor.status("pair").processes
    supervisor.kill("pair", "second")
    broken = pair(tmp_path, second="raise SystemExit('no disk')")
    with pytest.raises(NotReadyError, match="no disk"):
        supervisor.up([replace(broken, readiness_problem=lambda: "the second is missing")], patience=60)
    assert supervisor.status("pair").processes == {"first": before["first"]}
    assert not supervisor.status("pair").state.startswith("stopped")


def test_a_server_that_needs_another_is_started_when_that_one_is_ready(supervisor, tmp_path):
    """Those without dependencies do not wait for each other."""
    events = []

    def slow() -> str:
        events.append("slow asked")
        return "" if events.count("slow asked") > 2 else "not yet"

    def prepared(name: str):
        return lambda: events.append(f"{name} starts")

    servers = [
        replace(pair(tmp_path, name="slow"), readiness_problem=slow, prepare=prepared("slow")),
        replace(pair(tmp_path, name="free"), prepare=prepared("free")),
        replace(pair(tmp_path, name="needy"), prepare=prepared("needy"), after=("slow",)),
    ]
    supervisor.up(servers, patience=60)
    assert events == ["slow starts", "free starts", "slow asked", "slow asked", "slow asked", "needy starts"]


def test_a_server_is_provisioned_once_it_is_ready(supervisor, tmp_path):
    """What it is to contain can only be created then."""
    events = []
    server = replace(pair(tmp_path), provision=lambda: events.append("provisioned"))
    supervisor.up([replace(server, readiness_problem=lambda: events.append("asked") or "")], patience=60)
    assert events == ["asked", "provisioned"]


def test_a_process_is_asked_to_end_by_the_signal_that_it_wants(supervisor, tmp_path):
    """SIGTERM would have it wait for its clients."""
    polite = Process("only", (sys.executable, "-c", POLITE), stop_signal=signal.SIGINT)
    server = replace(pair(tmp_path), processes=(polite,))
    ready = server.folder / "ready"
    supervisor.up([replace(server, readiness_problem=lambda: "" if ready.exists() else "not yet")], patience=60)
    assert supervisor.down("pair", 30)
    assert (server.folder / "said goodbye").exists()


def test_the_memory_of_a_process_counts_what_it_has_started(supervisor, tmp_path):
    """Children in sessions of their own too."""
    supervisor.up([pair(tmp_path, second=WITH_CHILD)], patience=60)
    parent = psutil.Process(supervisor.status("pair").processes["second"])
    (child,) = until(parent.children)
    try:
        memory = supervisor.status("pair").memory
        assert memory["second"] > parent.memory_info().rss > 0
        assert memory.keys() == {"first", "second"}
    finally:
        child.kill()


def test_a_port_that_only_old_connections_have_is_waited_for(tmp_path):
    """Somebody who connected to himself has it, as clients of a server that is gone do; no process listens."""
    port = free_ports()
    connection = socket.socket()
    connection.bind(("127.0.0.1", port))
    connection.connect(("127.0.0.1", port))
    reset_on_close = struct.pack("ii", 1, 0)  # nothing of it stays when it closes
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset_on_close)
    assert not is_free(port)
    messages = []
    supervisor = Supervisor(tmp_path, say=messages.append, sleep=lambda seconds: connection.close())
    supervisor.up([replace(pair(tmp_path), ports={"SPRINGLINE_SMALL_PORT": port})], patience=60)
    supervisor.down("pair", 0.0)
    assert f"port {port} has no listener" in messages[0]


def test_a_port_with_half_closed_clients_of_a_killed_server_is_free():
    """They hold nothing back: a server can listen there at once, and gets the port."""
    port = free_ports()
    serving = f"import socket, time; s = socket.create_server(('127.0.0.1', {port})); k = s.accept(); time.sleep(600)"
    server = subprocess.Popen([sys.executable, "-c", serving])
    until(lambda: listener(port))
    client = socket.create_connection(("127.0.0.1", port))
    server.kill()
    server.wait()
    with client:
        assert client.recv(1) == b""  # the other half is closed
        assert is_free(port)


def test_a_killed_process_lives_until_its_last_thread_is_gone(tmp_path):
    """Its first thread may have ended, as a zombie has, while another still listens."""
    port = free_ports()
    process = subprocess.Popen([sys.executable, "-c", PARTLY_ENDED.format(port=port)])
    try:
        until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
        assert not is_free(port)
        assert start_time(process.pid) is not None
        process.kill()
        process.wait()
        assert start_time(process.pid) is None
    finally:
        process.kill()
