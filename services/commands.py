"""The commands for the servers of this machine."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from springline.persistence.commands.arguments import Json
from springline.persistence.text.redaction import redact_secrets
from springline.persistence.text.terminal import discard_text, print, print_json, print_result, progress
from springline.services.errors import ProgramNotFoundError
from springline.services.log_files import tail
from springline.services.packages.chromium import ensure_chromium
from springline.services.packages.coordinates import jar_sets
from springline.services.packages.jars import Jars, jar_sizes
from springline.services.packages.java import find_java
from springline.services.registry import SERVERS, check_server_names, make_servers, servers_to_start
from springline.services.settings import ServiceSettings
from springline.services.stop import end_servers, stop_all_profiles, stop_order
from springline.services.supervisor import ServerStatus, Supervisor

Names = Annotated[list[str] | None, typer.Argument(metavar="NAME…", help=f"of {', '.join(SERVERS)}")]


def up(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help=f"of {', '.join(SERVERS)}")],
    as_json: Json = False,
) -> None:
    """Start servers and their dependencies, and wait until they are ready; running servers are left alone."""
    settings = ServiceSettings()
    supervisor = Supervisor(settings.home, say=discard_text if as_json else print)
    servers = servers_to_start(names, settings)
    with progress(f"starting {', '.join(server.name for server in servers)}", quiet=as_json):
        supervisor.up(servers, settings.start_timeout)
    if as_json:
        print_json([_status_fields(supervisor.status(server.name)) for server in servers])


def down(names: Names = None, as_json: Json = False) -> None:
    """Stop servers with all of their processes; without a name, all that were started here."""
    settings = ServiceSettings()
    supervisor = Supervisor(settings.home)
    server_names = check_server_names(names or []) or stop_order(supervisor.started_servers())
    with progress("stopping servers", quiet=as_json or not server_names):
        ended = end_servers(supervisor, server_names, settings.stop_timeout, discard_text if as_json else print)
    if as_json:
        print_json([_status_fields(supervisor.status(name)) for name in server_names])
    raise typer.Exit(not ended)


def stop(
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait for all streams to stop")] = 90.0,
    as_json: Json = False,
) -> None:
    """Stop all streams and servers that were started here, of every profile.

    Processes that do not end in time are killed, and reported. Exit status 1: some are left, or could not be checked.
    """
    messages: list[str] = []

    def say(line: str) -> None:
        messages.append(redact_secrets(line))
        if not as_json:
            print(messages[-1], flush=True)

    with progress("stopping streams and servers", quiet=as_json):
        ended = stop_all_profiles(timeout, say)
    if as_json:
        print_json({"stopped": ended, "messages": messages})
    elif not messages:
        print("nothing is running")
    raise typer.Exit(not ended)


def ps(names: Names = None, as_json: Json = False) -> None:
    """List the servers with state, address, memory and process ids."""
    supervisor = Supervisor(ServiceSettings().home)
    statuses = [supervisor.status(name) for name in check_server_names(names or []) or SERVERS]
    if as_json:
        print_json([_status_fields(status) for status in statuses])
    else:
        print("\n".join(align_columns([_status_row(state) for state in statuses])))


def kill(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"of {', '.join(SERVERS)}")],
    process: Annotated[str, typer.Argument(metavar="PROCESS", help="name of one of its processes, as shown by `ps`")],
    as_json: Json = False,
) -> None:
    """Kill one process of a server with SIGKILL, to simulate a fault; `up NAME` restarts only that process."""
    check_server_names([name])
    Supervisor(ServiceSettings().home).kill(name, process)
    sentence = f"{name}: {process} killed; run `springline up {name}` to restart it"
    print_result(as_json, {"server": name, "process": process}, sentence)


def logs(names: Names = None) -> None:
    """Print the last lines of the servers' logs."""
    supervisor = Supervisor(ServiceSettings().home)
    for name in check_server_names(names or []) or SERVERS:
        for log in supervisor.logs(name):
            print(tail(log))


def jars(
    sets: Annotated[list[str] | None, typer.Argument(metavar="SET…", help=f"of {', '.join(jar_sets())}")] = None,
    as_json: Json = False,
) -> None:
    """Download the missing jars of servers; without a name, of all servers."""
    jar_store = Jars(ServiceSettings())
    rows: list[dict[str, Any]] = []
    with progress("downloading jars", quiet=as_json) as say:
        for name in sets or jar_sets():
            say(f"downloading the jars of {name}")
            fetched_sizes = jar_sizes(folder := jar_store.folder(name))
            rows.append(
                {"set": name, "jars": len(fetched_sizes), "bytes": sum(fetched_sizes.values()), "folder": str(folder)}
            )
            if not as_json:
                print(f"{name:10} {len(fetched_sizes):4} jars  {sum(fetched_sizes.values()) / 1e6:6.1f} MB  {folder}")
    if as_json:
        print_json(rows)


def execute(
    name: Annotated[str, typer.Argument(metavar="NAME", help="server whose environment to use")],
    command: Annotated[list[str], typer.Argument(metavar="COMMAND…", help="command with its arguments")],
) -> None:
    """Run a command in a server's environment, such as `springline server exec airflow airflow dags list`."""
    (server,) = make_servers([name], ServiceSettings())
    environment = {**os.environ, **server.environment}
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        raise ProgramNotFoundError(f"{command[0]} cannot be run: {error.strerror}") from error


def java(as_json: Json = False) -> None:
    """Print the JAVA_HOME that the servers use."""
    settings = ServiceSettings()
    installation = find_java(os.environ, settings.home)
    print_result(
        as_json,
        {"home": str(installation.home), "version": installation.version, "source": installation.source},
        str(installation.home),
    )


def chromium(as_json: Json = False) -> None:
    """Print the path of the Chromium for browser tests; if there is none, install it (as root on Debian)."""
    with progress("looking for Chromium, and installing it if it is missing", quiet=as_json):
        program = ensure_chromium(os.environ, root=os.geteuid() == 0)
    print_result(as_json, {"path": str(program)}, str(program))


def align_columns(rows: list[tuple[str, ...]]) -> list[str]:
    """Format rows as lines with aligned columns."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _status_fields(status: ServerStatus) -> dict[str, Any]:
    return {
        "server": status.server,
        "state": status.state,
        "address": status.address,
        "processes": dict(status.processes),
        "memory_bytes": dict(status.memory),
    }


def _status_row(status: ServerStatus) -> tuple[str, ...]:
    memory = f"{sum(status.memory.values()) / 1e6:,.0f} MB" if status.memory else ""
    ids = " ".join(f"{process}={pid}" for process, pid in status.processes.items())
    return (status.server, status.state, status.address, f"{memory:>8}", ids)
