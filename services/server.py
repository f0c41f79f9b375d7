"""The description of a server: its processes, their environment, its ports, and its readiness check."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ANSWER_SECONDS = 30.0  # timeout of a readiness check: on a busy machine, all servers answer slowly


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a server, started with its own session, process group and log file.

    `environment` extends the server's; `stop_signal` is the signal that asks the process to end.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_signal: signal.Signals = signal.SIGTERM


@dataclass(frozen=True, slots=True)
class InitStep:
    """A command that must succeed once before the first start; the file `stamp` records that it did.

    `output_folder` is the folder that the command creates, and whose data it would destroy. Its content is removed only
    if `marker` shows that an earlier run of the command was interrupted.
    """

    name: str
    command: tuple[str, ...]
    stamp: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    output_folder: Path | None = None

    @property
    def marker(self) -> Path:
        """The file that exists while the command runs; it is renamed to the stamp."""
        return self.stamp.with_name("initialising")


@dataclass(frozen=True, slots=True)
class Server:
    """Everything that the supervisor needs to start one server and to check that it is ready.

    `environment` extends the caller's. `ports` maps the setting that chooses a port to the port. `readiness_problem`
    returns what is still missing, in words, or an empty text if the server is ready. `prepare` writes the files that
    the server reads; it runs before every start and must be idempotent. `provision` creates objects in the running
    server, such as databases; it runs after every start and must be idempotent too. `user` is the user who runs the
    processes; empty: the caller. Servers named in `after` must be ready before this one starts, if they are started
    together; servers named in `needs` are started with it, and must be ready before it.
    """

    name: str
    address: str
    folder: Path
    processes: tuple[Process, ...]
    environment: Mapping[str, str]
    ports: Mapping[str, int]
    readiness_problem: Callable[[], str]
    prepare: Callable[[], None] = lambda: None
    init_steps: tuple[InitStep, ...] = field(default_factory=tuple)
    provision: Callable[[], None] = lambda: None
    user: str = ""
    after: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
