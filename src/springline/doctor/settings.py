"""What settings say: names that nobody knows, values that cannot be meant so, files and modules that are not there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from dotenv import dotenv_values
from pydantic_settings import BaseSettings, SettingsError

from springline.doctor.findings import Finding, note, ok, problem
from springline.persistence.monitoring.layers import declared_metrics
from springline.persistence.monitoring.rules import read_rules
from springline.persistence.profile import (
    PREFIX,
    chosen_profile,
    project_settings,
    settings_classes,
    unknown_settings,
)
from springline.persistence.project import let_import, project_file
from springline.persistence.settings import Settings
from springline.persistence.text.formatting import counted


class Read:
    """The settings of each class that could be read, by the name of the class, and what is wrong with the others."""

    def __init__(self) -> None:
        self.by_class: dict[str, BaseSettings] = {}
        self.errors: dict[str, str] = {}
        for declared in settings_classes():
            try:
                self.by_class[declared.__name__] = declared()
            except ValueError as error:
                self.errors.setdefault(str(error), declared.__name__)

    def value(self, of: str, name: str, default: object = None) -> object:
        """A setting of a class, or the default where that class is not installed, or cannot be read."""
        return getattr(self.by_class.get(of), name, default)


def check_settings(read: Read) -> Iterator[Finding]:
    """All that can be said of the settings without asking a server."""
    yield from _check_names()
    yield from (
        problem("settings", error, "mend it: `springline config list` tells what each is") for error in read.errors
    )
    yield from _check_files(read)
    yield from _check_modules(read)
    yield from _check_alerts(read)
    yield from _check_streams(read)


def needed_extras(read: Read) -> dict[str, str]:
    """The extras that the settings ask for, each with what asks for it."""
    needed = {}
    if isinstance(settings := read.by_class.get("Settings"), Settings):
        for name in ("under_uri", "cache_uri"):
            scheme = urlsplit(getattr(settings, name)).scheme
            if scheme in ("hdfs", "alluxio"):
                needed[scheme] = f"{PREFIX}{name.upper()}"
        if settings.catalog_url.startswith("postgresql"):
            needed["postgres"] = f"{PREFIX}CATALOG_URL"
    if read.value("MonitoringSettings", "metrics"):
        needed["monitoring"] = f"{PREFIX}METRICS"
    if os.environ.get("OPENLINEAGE_URL"):
        needed["monitoring"] = "OPENLINEAGE_URL"
    if read.value("JobSettings", "operations"):
        needed["spark"] = f"{PREFIX}OPERATIONS"
    return needed


def declares_streams(read: Read) -> Path | None:
    """The file that declares stream jobs, if there is one."""
    file = read.value("StreamSettings", "declarations")
    return file if isinstance(file, Path) and file.is_file() else None


def _check_names() -> Iterator[Finding]:
    """Names that are no settings, wherever they stand."""
    places: dict[str, list[str]] = {"environment": [name for name in os.environ if name.startswith(PREFIX)]}
    try:
        if profile := chosen_profile():
            places[str(profile)] = [name for name in dotenv_values(profile) if name.startswith(PREFIX)]
        places[str(project_file())] = [f"{PREFIX}{name.upper()}" for name in project_settings()]
    except SettingsError:
        pass  # each class of settings tells it
    unknown = 0
    for place, names in places.items():
        for name, near in unknown_settings(frozenset(name.removeprefix(PREFIX) for name in names)).items():
            unknown += 1
            remedy = f"did you mean {PREFIX}{near}?" if near else "remove it; `springline config list` has all"
            yield problem("settings", f"{place}: {PREFIX}{name} is no setting and changes nothing", remedy)
    if not unknown:
        file = project_file()
        of = f"of {file}" if file else "no springline.toml here or above; `springline init` makes a project"
        yield ok("settings", f"every name is a setting; {of}")


def _check_files(read: Read) -> Iterator[Finding]:
    """Files that settings name."""
    for of, name in (("StreamSettings", "streams"), ("MonitoringSettings", "alerts"), ("JobSettings", "landing"),
                     ("Settings", "ca_bundle")):  # fmt: skip
        path = read.value(of, name)
        if path and not Path(str(path)).expanduser().exists():
            yield problem("files", f"{PREFIX}{name.upper()}={path}: nothing is there", "make it, or name another")


def _check_modules(read: Read) -> Iterator[Finding]:
    """Modules that settings name can be found; they are not imported."""
    modules = {str(module): f"{PREFIX}OPERATIONS" for module in read.value("JobSettings", "operations", ()) or ()}  # type: ignore[attr-defined]
    if runner := str(read.value("Settings", "runner", "")):
        modules[runner.partition(":")[0]] = f"{PREFIX}RUNNER"
    let_import()
    for module, setting in modules.items():
        try:
            there = find_spec(module) is not None
        except (ImportError, ValueError):
            there = False
        if there:
            yield ok("modules", f"{setting}: {module}")
        else:
            yield problem(
                "modules", f"{setting}: no module {module!r} in {_searched()}", "mend its name, or set PYTHONPATH"
            )


def _searched() -> str:
    file = project_file()
    return f"{file.parent} or on PYTHONPATH" if file else f"the {counted(len(sys.path), 'folder')} of PYTHONPATH"


def _check_alerts(read: Read) -> Iterator[Finding]:
    """The rules of alerts can be read."""
    file = read.value("MonitoringSettings", "rules")
    if not isinstance(file, Path):
        return
    if not file.exists():
        yield note(
            "alerts", f"no rules: there is no {file}", "write one where you want to be warned: docs/monitoring.md"
        )
        return
    try:
        rules = read_rules(file, declared_metrics())
    except Exception as error:
        yield problem("alerts", str(error), "mend the file")
    else:
        yield ok("alerts", f"{counted(len(rules), 'rule')} in {file}")


def _check_streams(read: Read) -> Iterator[Finding]:
    """The stream jobs can be read."""
    file = read.value("StreamSettings", "declarations")
    if not isinstance(file, Path):
        return
    if not file.exists():
        yield note("streams", f"no jobs: there is no {file}")
        return
    from springline.spark_jobs.streaming.jobs import read_jobs

    try:
        jobs = read_jobs(file)
    except Exception as error:
        yield problem("streams", str(error), "mend the file")
    else:
        yield ok("streams", f"{counted(len(jobs), 'job')} in {file}: {', '.join(jobs) or 'none'}")
