"""Checks of the settings: unknown names, invalid values, missing files and modules."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from dotenv import dotenv_values
from pydantic_settings import BaseSettings, SettingsError

from springline.doctor.findings import Finding, note, ok, problem
from springline.persistence.errors import PersistenceError
from springline.persistence.monitoring.layers import declared_metrics
from springline.persistence.monitoring.rules import read_rules
from springline.persistence.profile import (
    PREFIX,
    active_profile_file,
    project_settings,
    settings_classes,
    unknown_settings,
)
from springline.persistence.project import add_project_to_path, project_file
from springline.persistence.settings import Settings
from springline.persistence.text.formatting import format_count


class LoadedSettings:
    """The settings objects that are valid, by name of their class, and the errors of the others."""

    def __init__(self) -> None:
        self.by_class: dict[str, BaseSettings] = {}
        self.errors: dict[str, str] = {}
        for settings_class in settings_classes():
            try:
                self.by_class[settings_class.__name__] = settings_class()
            except ValueError as error:
                self.errors.setdefault(str(error), settings_class.__name__)

    def value(self, class_name: str, name: str, default: object = None) -> object:
        """Return a setting of a class, or the default if that class is not installed or its settings are invalid."""
        return getattr(self.by_class.get(class_name), name, default)


def check_settings(loaded_settings: LoadedSettings) -> Iterator[Finding]:
    """Run all checks of the settings that need no server."""
    yield from _check_names()
    yield from (
        problem("settings", error, "correct it; `springline config list` describes each setting")
        for error in loaded_settings.errors
    )
    yield from _check_addresses(loaded_settings)
    yield from _check_files(loaded_settings)
    yield from _check_modules(loaded_settings)
    yield from _check_alerts(loaded_settings)
    yield from _check_streams(loaded_settings)


def needed_extras(loaded_settings: LoadedSettings) -> dict[str, str]:
    """Return the extras that the settings need, each with the name of the setting or variable."""
    extras = {}
    if isinstance(settings := loaded_settings.by_class.get("Settings"), Settings):
        for name in ("under_uri", "cache_uri"):
            scheme = urlsplit(getattr(settings, name)).scheme
            if scheme in ("hdfs", "alluxio", "s3"):
                extras[scheme] = f"{PREFIX}{name.upper()}"
        if settings.catalog_url.startswith("postgresql"):
            extras["postgres"] = f"{PREFIX}CATALOG_URL"
    if loaded_settings.value("MonitoringSettings", "otlp_endpoint"):
        extras["monitoring"] = f"{PREFIX}OTLP_ENDPOINT"
    if os.environ.get("OPENLINEAGE_URL"):
        extras["monitoring"] = "OPENLINEAGE_URL"
    if loaded_settings.value("JobSettings", "operations"):
        extras["spark"] = f"{PREFIX}OPERATIONS"
    return extras


def declarations_file(loaded_settings: LoadedSettings) -> Path | None:
    """Return the file that declares stream jobs, if it exists."""
    file = loaded_settings.value("StreamSettings", "declarations")
    return file if isinstance(file, Path) and file.is_file() else None


def _check_names() -> Iterator[Finding]:
    """Check for unknown names in the environment, the profile and springline.toml."""
    names_by_source: dict[str, list[str]] = {"environment": [name for name in os.environ if name.startswith(PREFIX)]}
    try:
        if profile := active_profile_file():
            names_by_source[str(profile)] = [name for name in dotenv_values(profile) if name.startswith(PREFIX)]
        names_by_source[str(project_file())] = [f"{PREFIX}{name.upper()}" for name in project_settings()]
    except SettingsError:
        pass  # reported by each class of settings
    unknown_count = 0
    for source, names in names_by_source.items():
        for name, near in unknown_settings(frozenset(name.removeprefix(PREFIX) for name in names)).items():
            unknown_count += 1
            remedy = (
                f"did you mean {PREFIX}{near}?" if near else "remove it; `springline config list` lists all settings"
            )
            yield problem("settings", f"{source}: {PREFIX}{name} is not a setting and has no effect", remedy)
    if not unknown_count:
        file = project_file()
        source_text = (
            f"project file {file}"
            if file
            else "no springline.toml in this folder or above; `springline init` creates a project"
        )
        yield ok("settings", f"no unknown names; {source_text}")


def _check_addresses(loaded_settings: LoadedSettings) -> Iterator[Finding]:
    """Check that the addresses of catalog and stores can be opened, without asking a server."""
    from springline.persistence.backends.registry import open_backend

    if not isinstance(settings := loaded_settings.by_class.get("Settings"), Settings):
        return
    checks: tuple[Callable[[], object], ...] = (
        lambda: settings.catalog_address,
        lambda: settings.cache_uri and open_backend(settings.cache_uri, "cache", settings, in_use=lambda: True),
        lambda: open_backend(settings.under_address, "under", settings, in_use=lambda: True),
    )
    for check in checks:
        try:
            check()
        except PersistenceError as error:
            yield problem("settings", str(error), "correct it; `springline config list` describes each setting")


_FILE_SETTINGS = (
    ("StreamSettings", "streams_file"),
    ("MonitoringSettings", "alert_rules"),
    ("JobSettings", "landing_uri"),
    ("Settings", "ca_bundle"),
)


def _check_files(loaded_settings: LoadedSettings) -> Iterator[Finding]:
    """Check that the files which settings name exist."""
    for class_name, name in _FILE_SETTINGS:
        path = loaded_settings.value(class_name, name)
        if path and "://" not in str(path) and not Path(str(path)).expanduser().exists():
            yield problem("files", f"{PREFIX}{name.upper()}={path} does not exist", "create it, or set another path")


def _check_modules(loaded_settings: LoadedSettings) -> Iterator[Finding]:
    """Check that the modules which settings name can be found; they are not imported."""
    operations = loaded_settings.value("JobSettings", "operations", ()) or ()
    modules = {str(module): f"{PREFIX}OPERATIONS" for module in operations}  # type: ignore[attr-defined]
    if runner := str(loaded_settings.value("Settings", "runner", "")):
        modules[runner.partition(":")[0]] = f"{PREFIX}RUNNER"
    add_project_to_path()
    for module, setting in modules.items():
        try:
            is_importable = find_spec(module) is not None
        except (ImportError, ValueError):
            is_importable = False
        if is_importable:
            yield ok("modules", f"{setting}: {module}")
        else:
            yield problem(
                "modules",
                f"{setting}: no module {module!r} in {_search_path_text()}",
                "correct its name, or set PYTHONPATH",
            )


def _search_path_text() -> str:
    file = project_file()
    return f"{file.parent} or on PYTHONPATH" if file else f"the {format_count(len(sys.path), 'folder')} of PYTHONPATH"


def _check_alerts(loaded_settings: LoadedSettings) -> Iterator[Finding]:
    """Check that the alert rules can be read."""
    file = loaded_settings.value("MonitoringSettings", "rules")
    if not isinstance(file, Path):
        return
    if not file.exists():
        yield note("alerts", f"no rules: {file} does not exist", "create it to get alerts: docs/monitoring.md")
        return
    try:
        rules = read_rules(file, declared_metrics())
    except Exception as error:
        yield problem("alerts", str(error), "correct the file")
    else:
        yield ok("alerts", f"{format_count(len(rules), 'rule')} in {file}")


def _check_streams(loaded_settings: LoadedSettings) -> Iterator[Finding]:
    """Check that the declarations of stream jobs can be read."""
    file = loaded_settings.value("StreamSettings", "declarations")
    if not isinstance(file, Path):
        return
    if not file.exists():
        yield note("streams", f"no jobs: {file} does not exist")
        return
    from springline.spark_jobs.streaming.jobs import read_jobs

    try:
        jobs = read_jobs(file)
    except Exception as error:
        yield problem("streams", str(error), "correct the file")
    else:
        yield ok("streams", f"{format_count(len(jobs), 'job')} in {file}: {', '.join(jobs) or 'none'}")
