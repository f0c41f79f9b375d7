"""What a server is: its processes, their environment, its ports, and the question whether it is ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a server; it gets a session, a process group and a log file of its own."""

    name: str
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Once:
    """A command that must have ended well before the first start; `stamp` is the file that remembers it."""

    name: str
    command: tuple[str, ...]
    stamp: Path


@dataclass(frozen=True, slots=True)
class Server:
    """Everything that the supervisor needs to start one server and to know that it serves.

    `environment` is laid over the caller's. `ports` maps the setting that chooses a port to the port.
    `ready` answers what is still missing, in words; an empty answer means ready. `prepare` writes
    the files that the server reads; it runs before every start and must leave alone what is there.
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
