"""Stops everything that was started here, streams before servers; one slow or stuck process does not delay the rest."""

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

from springline.persistence.private_files import default_cache_folder
from springline.persistence.profile import project_folder
from springline.persistence.text.formatting import format_bytes
from springline.services.errors import ServiceError
from springline.services.process.groups import groups_of
from springline.services.registry import SERVERS
from springline.services.servers.alluxio import ramdisk
from springline.services.settings import ServiceSettings
from springline.services.supervisor import StopResult, Supervisor
from springline.spark_jobs.streaming.application.process_family import is_alive, send
from springline.spark_jobs.streaming.application.stop import end_by_force, running_folders, stop_all
from springline.spark_jobs.streaming.settings import StreamSettings

Say = Callable[[str], None]

_PROFILE = "SPRINGLINE_PROFILE"
_MEMORY = Path("/dev/shm")
_ORPHAN_SECONDS = 10.0  # from SIGTERM until SIGKILL, for processes without a record


@dataclass(frozen=True)
class Home:
    """A home folder in which streams and servers may run, with its settings."""

    services: ServiceSettings
    streams: StreamSettings

    @property
    def path(self) -> Path:
        """Path of the folder."""
        return self.services.home


def stop_all_profiles(patience: float, say: Say, profiles: Path | None = None) -> bool:
    """Stop all streams and servers, of every profile and without one; all streams together may take `patience` seconds.

    What does not end is killed. Returns whether everything could be checked, and nothing is left.
    """
    files = (profiles or project_folder() / "profiles").glob("*.env")
    homes: dict[Path, Home] = {}
    ended = True
    for profile in ("", os.environ.get(_PROFILE, ""), *sorted(str(file) for file in files)):
        try:
            with _use_profile(profile):
                home = Home(ServiceSettings(), StreamSettings())
        except SettingsError as error:
            say(f"profile {Path(profile).stem or '(none)'} cannot be checked: {error}")
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
    """Stop everything that runs in one home; returns whether nothing is left.

    A slow stream is killed only after Airflow has ended, because its DAG would restart it.
    """
    supervisor = Supervisor(home.path, say)
    servers = stop_order(supervisor.started_servers())
    stop_all(home.streams.folders(), patience, say)
    ended = end_servers(supervisor, [name for name in servers if name == "airflow"], home.services.stop_timeout, say)
    for folder in end_by_force(running_folders(home.streams.folders()), say):
        say(f"{folder.path.name}: could not be stopped; log: {folder.log_file}")
        ended = False
    others = [name for name in servers if name != "airflow"]
    ended &= end_servers(supervisor, others, home.services.stop_timeout, say)
    ended &= _end_orphans(supervisor, say)
    _report_memory(home.services, say)
    return ended


def end_servers(supervisor: Supervisor, names: Sequence[str], patience: float, say: Say) -> bool:
    """Stop servers one after the other, and report each; one that takes longer than `patience` seconds is killed.

    Returns whether all have ended.
    """
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
    StopResult.NOT_RUNNING: "was not running",
    StopResult.ENDED: "stopped",
    StopResult.KILLED: "killed, since it had not stopped after {patience:g} s",
}


def stop_order(names: Iterable[str]) -> list[str]:
    """Return servers in the order in which they are stopped: dependents before their dependencies."""
    order = {name: number for number, name in enumerate(reversed(list(SERVERS)))}
    return sorted(names, key=lambda name: order.get(name, len(order)))


def _end_orphans(supervisor: Supervisor, say: Say) -> bool:
    """Stop processes that were started here but have no record, for example because the home was deleted."""
    try:
        orphans = supervisor.orphaned_processes()
    except ServiceError:
        return False  # a record is damaged, which was reported before
    if not orphans:
        return True
    for number in (signal.SIGTERM, signal.SIGKILL):
        groups = " ".join(map(str, sorted(groups_of(orphans))))
        say(f"processes without a record: {number.name} to process groups {groups}")
        send(number, orphans)
        until = time.monotonic() + _ORPHAN_SECONDS
        while (orphans := tuple(each for each in orphans if is_alive(each))) and time.monotonic() < until:
            time.sleep(0.1)
        if not orphans:
            return True
    say(f"could not be stopped: processes {', '.join(str(process.pid) for process in orphans)}")
    return False


def _report_memory(settings: ServiceSettings, say: Say) -> None:
    """Report the files that stay in memory for the next start; folders without files are removed."""
    for what, folder in (("the cache", default_cache_folder(settings.home)), ("Alluxio's blocks", ramdisk(settings))):
        if not folder.is_dir() or not folder.is_relative_to(_MEMORY):
            continue
        if files := [file for file in folder.rglob("*") if file.is_file()]:
            size = format_bytes(sum(file.lstat().st_size for file in files))
            say(
                f"kept in memory for the next start: {what}, {size} in {folder}; "
                f"remove it with `rm -r` to free the memory"
            )
        else:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _use_profile(profile: str) -> Iterator[None]:
    """Read settings with this profile inside the context."""
    previous_profile = os.environ.get(_PROFILE)
    os.environ[_PROFILE] = profile
    try:
        yield
    finally:
        if previous_profile is None:
            del os.environ[_PROFILE]
        else:
            os.environ[_PROFILE] = previous_profile
