"""Every server starts, serves, keeps its data through kill -9 and through `down`, and is this machine's alone."""

from __future__ import annotations

import ipaddress

import psutil
import pytest

from springline.services.process.groups import members
from springline.services.process.run_state import ServerRecords
from tests.support.servers.round_trips import ROUND_TRIPS, TEXT
from tests.support.servers.servers import Running

SLOW = {"spark", "alluxio"}  # to write to, and to read from
every_server = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.nightly("is started twice")) if name in SLOW else name
        for name in ROUND_TRIPS
    ],
)


def running_processes(server: Running) -> tuple[psutil.Process, ...]:
    """Every process of the server, with what its processes have started."""
    record = ServerRecords(server.settings.home / "run").load(server.name)
    if record is None:
        return ()
    leaders = [psutil.Process(pid) for pid in server.processes.values()]
    return tuple({*members(record), *(child for each in leaders for child in each.children(recursive=True))})


@every_server
def test_a_server_serves_this_machine_alone_and_keeps_its_data_through_kill_and_down(start, name):
    """What was written is read back: after kill -9 of all of its processes, and after `down`.

    Every process is gone when `down` returns, those too that took a session of their own.
    """
    server, trip = start(name), ROUND_TRIPS[name]
    trip.write(server)
    assert listening_addresses(server) and all(loopback(address) for address in listening_addresses(server))
    before = server.processes
    for process in before:
        server.kill(process)
    assert not server.processes
    server.restart_stopped()
    assert server.processes.keys() == before.keys()
    assert trip.read(server) == TEXT
    processes = running_processes(server)
    assert len(processes) >= len(server.processes) > 0
    assert server.supervisor.down(name, 20)
    assert not [each for each in processes if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
    server.restart_stopped()
    assert trip.read(server) == TEXT


def listening_addresses(server: Running) -> set[str]:
    """The addresses on which the server listens."""
    ids = {each.pid for each in running_processes(server)}
    connections = psutil.net_connections(kind="tcp")
    return {each.laddr.ip for each in connections if each.status == psutil.CONN_LISTEN and each.pid in ids}


def loopback(address: str) -> bool:
    """An address of this machine, written as IPv4, IPv6, or one in the other."""
    parsed = ipaddress.ip_address(address)
    inner = getattr(parsed, "ipv4_mapped", None) or parsed
    return bool(inner.is_loopback)
