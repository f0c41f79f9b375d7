"""The commands about the servers of this machine."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from springline.persistence.text.redaction import redacted
from springline.persistence.text.terminal import print
from springline.services.errors import NoProgram
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


def up(names: Annotated[list[str], typer.Argument(metavar="NAME…", help=f"of {', '.join(SERVERS)}")]) -> None:
    """Start servers, and those that they need, and wait until they are ready; those that run already stay."""
    settings = ServiceSettings()
    Supervisor(settings.home).up(servers_to_start(names, settings), settings.start_patience)


def down(names: Names = None) -> None:
    """End servers with all of their processes; without a name, every one that was started here."""
    settings = ServiceSettings()
    supervisor = Supervisor(settings.home)
    chosen = known(names or []) or in_turn(supervisor.recorded())
    ended = end_servers(supervisor, chosen, settings.stop_patience, print)
    raise typer.Exit(not ended)


def stop(
    timeout: Annotated[float, typer.Option(min=0, help="Seconds that all streams may take to come to rest")] = 90.0,
) -> None:
    """End every stream and every server that was started here, of every profile.

    What does not end by itself is killed, and told. Exit status 1: something is left, or could not be looked at.
    """
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        print(redacted(line), flush=True)

    ended = stop_all_profiles(timeout, say)
    if not said:
        print("nothing runs")
    raise typer.Exit(not ended)


def ps(names: Names = None) -> None:
    """Tell which servers run, where, with how much memory, and in which processes."""
    supervisor = Supervisor(ServiceSettings().home)
    print("\n".join(aligned([_told(supervisor.state(name)) for name in known(names or []) or SERVERS])))


def kill(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"of {', '.join(SERVERS)}")],
    process: Annotated[str, typer.Argument(metavar="PROCESS", help="one of its processes, as `ps` names them")],
) -> None:
    """Kill one process of a server at once, as a fault would; `up NAME` starts just that one again."""
    known([name])
    Supervisor(ServiceSettings().home).kill(name, process)
    print(f"{name}: {process} killed; `springline up {name}` starts it again")


def logs(names: Names = None) -> None:
    """Print the end of every log of the servers."""
    supervisor = Supervisor(ServiceSettings().home)
    for name in known(names or []) or SERVERS:
        for log in supervisor.logs(name):
            print(tail(log))


def jars(
    sets: Annotated[list[str] | None, typer.Argument(metavar="SET…", help=f"of {', '.join(jar_sets())}")] = None,
) -> None:
    """Fetch the servers' jars, those that are not here yet; without a name, of every server."""
    found = Jars(ServiceSettings())
    for name in sets or jar_sets():
        folder = found.folder(name)
        here = sizes(folder)
        print(f"{name:10} {len(here):4} jars  {sum(here.values()) / 1e6:6.1f} MB  {folder}")


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
        raise NoProgram(f"{command[0]} cannot be run: {error.strerror}") from error


def java() -> None:
    """Print the JAVA_HOME that the servers use."""
    settings = ServiceSettings()
    print(find_java(os.environ, settings.home).home)


def chromium() -> None:
    """Print the Chromium that looks at pages in tests; where there is none, install it if that may be done here."""
    print(have_chromium(os.environ, root=os.geteuid() == 0))


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """The rows as lines, their columns under each other."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _told(state: State) -> tuple[str, ...]:
    memory = f"{sum(state.memory.values()) / 1e6:,.0f} MB" if state.memory else ""
    ids = " ".join(f"{process}={pid}" for process, pid in state.processes.items())
    return (state.server, state.words, state.address, f"{memory:>8}", ids)
