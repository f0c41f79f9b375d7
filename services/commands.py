"""The commands about the servers of this machine."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from springline.persistence.commands.arguments import Json
from springline.persistence.text.redaction import redacted
from springline.persistence.text.terminal import print, print_json, print_nothing, print_result, progress
from springline.services.errors import ProgramNotFoundError
from springline.services.log_files import tail
from springline.services.packages.chromium import have_chromium
from springline.services.packages.coordinates import jar_sets
from springline.services.packages.jars import Jars, sizes
from springline.services.packages.java import find_java
from springline.services.registry import SERVERS, known, make_servers, servers_to_start
from springline.services.settings import ServiceSettings
from springline.services.stop import end_servers, in_turn, stop_all_profiles
from springline.services.supervisor import State, Supervisor

Names = Annotated[list[str] | None, typer.Argument(metavar="NAME…", help=f"of {', '.join(SERVERS)}")]


def up(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help=f"of {', '.join(SERVERS)}")],
    as_json: Json = False,
) -> None:
    """Start servers, and those that they need, and wait until they are ready; those that run already stay."""
    settings = ServiceSettings()
    supervisor = Supervisor(settings.home, say=print_nothing if as_json else print)
    servers = servers_to_start(names, settings)
    with progress(f"starting {', '.join(server.name for server in servers)}", quiet=as_json):
        supervisor.up(servers, settings.start_patience)
    if as_json:
        print_json([_fields(supervisor.state(server.name)) for server in servers])


def down(names: Names = None, as_json: Json = False) -> None:
    """End servers with all of their processes; without a name, every one that was started here."""
    settings = ServiceSettings()
    supervisor = Supervisor(settings.home)
    chosen = known(names or []) or in_turn(supervisor.recorded())
    with progress("ending servers", quiet=as_json or not chosen):
        ended = end_servers(supervisor, chosen, settings.stop_patience, print_nothing if as_json else print)
    if as_json:
        print_json([_fields(supervisor.state(name)) for name in chosen])
    raise typer.Exit(not ended)


def stop(
    timeout: Annotated[float, typer.Option(min=0, help="Seconds that all streams may take to come to rest")] = 90.0,
    as_json: Json = False,
) -> None:
    """End every stream and every server that was started here, of every profile.

    What does not end by itself is killed, and told. Exit status 1: something is left, or could not be looked at.
    """
    said: list[str] = []

    def say(line: str) -> None:
        said.append(redacted(line))
        if not as_json:
            print(said[-1], flush=True)

    with progress("ending streams and servers", quiet=as_json):
        ended = stop_all_profiles(timeout, say)
    if as_json:
        print_json({"ended": ended, "messages": said})
    elif not said:
        print("nothing runs")
    raise typer.Exit(not ended)


def ps(names: Names = None, as_json: Json = False) -> None:
    """Tell which servers run, where, with how much memory, and in which processes."""
    supervisor = Supervisor(ServiceSettings().home)
    states = [supervisor.state(name) for name in known(names or []) or SERVERS]
    if as_json:
        print_json([_fields(state) for state in states])
    else:
        print("\n".join(aligned([_told(state) for state in states])))


def kill(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"of {', '.join(SERVERS)}")],
    process: Annotated[str, typer.Argument(metavar="PROCESS", help="one of its processes, as `ps` names them")],
    as_json: Json = False,
) -> None:
    """Kill one process of a server at once, as a fault would; `up NAME` starts just that one again."""
    known([name])
    Supervisor(ServiceSettings().home).kill(name, process)
    sentence = f"{name}: {process} killed; `springline up {name}` starts it again"
    print_result(as_json, {"server": name, "process": process}, sentence)


def logs(names: Names = None) -> None:
    """Print the end of every log of the servers."""
    supervisor = Supervisor(ServiceSettings().home)
    for name in known(names or []) or SERVERS:
        for log in supervisor.logs(name):
            print(tail(log))


def jars(
    sets: Annotated[list[str] | None, typer.Argument(metavar="SET…", help=f"of {', '.join(jar_sets())}")] = None,
    as_json: Json = False,
) -> None:
    """Fetch the servers' jars, those that are not here yet; without a name, of every server."""
    found = Jars(ServiceSettings())
    rows: list[dict[str, Any]] = []
    with progress("fetching jars", quiet=as_json) as say:
        for name in sets or jar_sets():
            say(f"fetching the jars of {name}")
            here = sizes(folder := found.folder(name))
            rows.append({"set": name, "jars": len(here), "bytes": sum(here.values()), "folder": str(folder)})
            if not as_json:
                print(f"{name:10} {len(here):4} jars  {sum(here.values()) / 1e6:6.1f} MB  {folder}")
    if as_json:
        print_json(rows)


def execute(
    name: Annotated[str, typer.Argument(metavar="NAME", help="the server whose environment is wanted")],
    command: Annotated[list[str], typer.Argument(metavar="COMMAND…", help="what to run, with its arguments")],
) -> None:
    """Run a command in a server's environment, as in `springline server exec airflow airflow dags list`."""
    (server,) = make_servers([name], ServiceSettings())
    environment = {**os.environ, **server.environment}
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        raise ProgramNotFoundError(f"{command[0]} cannot be run: {error.strerror}") from error


def java(as_json: Json = False) -> None:
    """Print the JAVA_HOME that the servers use."""
    settings = ServiceSettings()
    found = find_java(os.environ, settings.home)
    print_result(as_json, {"home": str(found.home), "version": found.version, "from": found.words}, str(found.home))


def chromium(as_json: Json = False) -> None:
    """Print the Chromium that looks at pages in tests; where there is none, install it if that may be done here."""
    with progress("looking for Chromium, and fetching it where there is none", quiet=as_json):
        program = have_chromium(os.environ, root=os.geteuid() == 0)
    print_result(as_json, {"path": str(program)}, str(program))


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """The rows as lines, their columns under each other."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _fields(state: State) -> dict[str, Any]:
    return {
        "server": state.server,
        "state": state.words,
        "address": state.address,
        "processes": dict(state.processes),
        "memory_bytes": dict(state.memory),
    }


def _told(state: State) -> tuple[str, ...]:
    memory = f"{sum(state.memory.values()) / 1e6:,.0f} MB" if state.memory else ""
    ids = " ".join(f"{process}={pid}" for process, pid in state.processes.items())
    return (state.server, state.words, state.address, f"{memory:>8}", ids)
