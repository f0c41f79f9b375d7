"""What a server is: its processes, their environment, its ports, and the question whether it is ready."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ANSWER_SECONDS = 30.0  # that a server has to answer the question whether it is ready: on a busy machine all take long


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a server; it gets a session, a process group and a log file of its own.

    `environment` is laid over the server's; `stop` is the signal that asks the process to end.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    stop: signal.Signals = signal.SIGTERM


@dataclass(frozen=True, slots=True)
class Once:
    """A command that must have ended well before the first start; `stamp` is the file that remembers it.

    `makes` is the folder that the command makes, and whose data it would destroy. What is in it is removed only if
    `marker` tells that such a command was cut short.
    """

    name: str
    command: tuple[str, ...]
    stamp: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    makes: Path | None = None

    @property
    def marker(self) -> Path:
        """The file that is there while the command runs; it becomes the stamp."""
        return self.stamp.with_name("initialising")


@dataclass(frozen=True, slots=True)
class Server:
    """Everything that the supervisor needs to start one server and to know that it serves.

    `environment` is laid over the caller's. `ports` maps the setting that chooses a port to the port.
    `ready` answers what is still missing, in words; an empty answer means ready. `prepare` writes
    the files that the server reads; it runs before every start and must leave alone what is there.
    `furnish` makes what belongs into a server that serves; it runs after every start, and must leave
    alone what is there too. `user` runs the processes; empty: whoever starts them. Servers named in
    `after` must be ready before this one starts, if they are started with it; those that it `needs` are started
    with it, and must be ready too.
    """

    name: str
    address: str
    folder: Path
    processes: tuple[Process, ...]
    environment: Mapping[str, str]
    ports: Mapping[str, int]
    ready: Callable[[], str]
    prepare: Callable[[], None] = lambda: None
    once: tuple[Once, ...] = field(default_factory=tuple)
    furnish: Callable[[], None] = lambda: None
    user: str = ""
    after: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
