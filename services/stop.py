"""Stops all that was started here, streams before servers; what is slow, or cannot be ended, keeps nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic_settings import SettingsError

from springline.persistence.platform import default_cache
from springline.persistence.profile import project_folder
from springline.persistence.text.formatting import say_bytes
from springline.services.errors import ServiceError
from springline.services.process.groups import groups_of
from springline.services.registry import SERVERS
from springline.services.servers.alluxio import ramdisk
from springline.services.settings import ServiceSettings
from springline.services.supervisor import Ending, Supervisor
from springline.spark_jobs.streaming.application.process_family import is_alive, send
from springline.spark_jobs.streaming.application.stop import end_by_force, living, stop_all
from springline.spark_jobs.streaming.settings import StreamSettings

Say = Callable[[str], None]

_PROFILE = "SPRINGLINE_PROFILE"
_MEMORY = Path("/dev/shm")
_LEFT_OVER_SECONDS = 10.0  # from SIGTERM until SIGKILL, for processes that no record tells of


@dataclass(frozen=True)
class Home:
    """A home in which streams and servers may run, as its settings describe it."""

    services: ServiceSettings
    streams: StreamSettings

    @property
    def path(self) -> Path:
        """Its folder."""
        return self.services.home


def stop_all_profiles(patience: float, say: Say, profiles: Path | None = None) -> bool:
    """Stop every stream and every server of every profile, and without one; streams have so many seconds together.

    Returns whether nothing is left that could be looked at and ended, by force where it had to be.
    """
    files = (profiles or project_folder() / "profiles").glob("*.env")
    homes: dict[Path, Home] = {}
    ended = True
    for profile in ("", os.environ.get(_PROFILE, ""), *sorted(str(file) for file in files)):
        try:
            with _chosen(profile):
                home = Home(ServiceSettings(), StreamSettings())
        except SettingsError as error:
            say(f"what runs with the profile {Path(profile).stem or '(none)'} is not known: {error}")
            ended = False
        else:
            homes.setdefault(home.path, home)
    for home in homes.values():
        try:
            ended &= stop_home(home, patience, say)
        except Exception as error:
            say(f"{home.path}: {type(error).__name__}: {error}")
            ended = False
    return ended


def stop_home(home: Home, patience: float, say: Say) -> bool:
    """Stop what runs in one home; whether nothing is left.

    A stream that is slow is ended by force only once Airflow has ended: its DAG would start it again.
    """
    supervisor = Supervisor(home.path, say)
    servers = in_turn(supervisor.recorded())
    stop_all(home.streams.folders(), patience, say)
    ended = end_servers(supervisor, [name for name in servers if name == "airflow"], home.services.stop_patience, say)
    for folder in end_by_force(living(home.streams.folders()), say):
        say(f"{folder.path.name}: could not be ended; its log: {folder.log_file}")
        ended = False
    others = [name for name in servers if name != "airflow"]
    ended &= end_servers(supervisor, others, home.services.stop_patience, say)
    ended &= _end_left_over(supervisor, say)
    _tell_memory(home.services, say)
    return ended


def end_servers(supervisor: Supervisor, names: Sequence[str], patience: float, say: Say) -> bool:
    """End servers one after the other, each after so many seconds by force; whether all have ended. Each is told."""
    ended = True
    for name in names:
        try:
            ending = supervisor.down(name, patience)
        except (ServiceError, OSError) as error:
            say(f"{name}: {error}")
            ended = False
        else:
            say(f"{name}: {_ENDINGS[ending].format(patience=patience)}")
    return ended


_ENDINGS = {
    Ending.NOT_RUNNING: "was not running",
    Ending.ENDED: "ended",
    Ending.KILLED: "killed: it had not ended after {patience:g} s",
}


def in_turn(names: Iterable[str]) -> list[str]:
    """Servers in the order in which they are ended: those that need others before them."""
    turns = {name: turn for turn, name in enumerate(reversed(list(SERVERS)))}
    return sorted(names, key=lambda name: turns.get(name, len(turns)))


def _end_left_over(supervisor: Supervisor, say: Say) -> bool:
    """End what was started here and no record tells of any more, as when the home was removed meanwhile."""
    try:
        left = supervisor.left_over()
    except ServiceError:
        return False  # a record is damaged; it was told
    if not left:
        return True
    for number in (signal.SIGTERM, signal.SIGKILL):
        groups = " ".join(map(str, sorted(groups_of(left))))
        say(f"processes that no record tells of: {number.name} to process groups {groups}")
        send(number, left)
        until = time.monotonic() + _LEFT_OVER_SECONDS
        while (left := tuple(each for each in left if is_alive(each))) and time.monotonic() < until:
            time.sleep(0.1)
        if not left:
            return True
    say(f"could not be ended: processes {', '.join(str(process.pid) for process in left)}")
    return False


def _tell_memory(settings: ServiceSettings, say: Say) -> None:
    """Tell what stays in memory for the next start; a folder that holds no file is removed."""
    for what, folder in (("the cache", default_cache(settings.home)), ("Alluxio's blocks", ramdisk(settings))):
        if not folder.is_dir() or not folder.is_relative_to(_MEMORY):
            continue
        if files := [file for file in folder.rglob("*") if file.is_file()]:
            size = say_bytes(sum(file.lstat().st_size for file in files))
            say(f"in memory for the next start: {what}, {size} in {folder}; `rm -r` gives them up")
        else:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _chosen(profile: str) -> Iterator[None]:
    """Settings are read as with this profile meanwhile."""
    before = os.environ.get(_PROFILE)
    os.environ[_PROFILE] = profile
    try:
        yield
    finally:
        if before is None:
            del os.environ[_PROFILE]
        else:
            os.environ[_PROFILE] = before
