"""The commands `springline doctor` and `springline config check`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from urllib.parse import unquote, urlsplit

import typer

from springline.doctor.findings import Finding, count_problems, note
from springline.doctor.machine import (
    check_cache_disk,
    check_disk,
    check_extras,
    check_java,
    check_memory,
    check_python,
    missing_packages,
    packages_of_extras,
)
from springline.doctor.servers import check_ports, check_servers
from springline.doctor.settings import LoadedSettings, check_settings, needed_extras
from springline.persistence.commands.arguments import EXIT_CONDITION_FAILED, Json
from springline.persistence.text.formatting import format_count
from springline.persistence.text.terminal import print, print_json, progress


def doctor(as_json: Json = False) -> None:
    """Check Python, Java, packages, disk, memory, settings and servers, and print a remedy for each problem.

    Changes nothing. Exit status 3: there is a problem.
    """
    with progress("checking", quiet=as_json):
        loaded_settings = _load_settings()
        findings = [
            *_check_machine(loaded_settings),
            *check_settings(loaded_settings),
            *_check_ports(loaded_settings),
            *check_servers(loaded_settings),
        ]
    _print_findings(findings, as_json)


def check_config(as_json: Json = False) -> None:
    """Check settings, springline.toml, streams.toml and alerts.toml: names, values, files, modules.

    Connects to no server. Exit status 3: there is a problem.
    """
    with progress("reading settings", quiet=as_json):
        findings = list(check_settings(_load_settings()))
    _print_findings(findings, as_json)


def _load_settings() -> LoadedSettings:
    """Load the settings without log warnings, since the checks report the same problems as findings."""
    logging.getLogger("springline.settings").setLevel(logging.ERROR)
    return LoadedSettings()


def _check_machine(loaded_settings: LoadedSettings) -> Iterator[Finding]:
    missing = missing_packages(packages_of_extras())
    yield check_python()
    yield from check_extras(needed_extras(loaded_settings), missing)
    yield check_java(missing)
    if isinstance(home := loaded_settings.value("Settings", "home"), Path):
        yield check_disk(home)
    capacity, uri = (loaded_settings.value("Settings", name) for name in ("cache_capacity", "cache_uri"))
    if isinstance(capacity, int) and not uri:
        yield check_cache_disk(capacity)
    elif isinstance(capacity, int) and (parts := urlsplit(str(uri))).scheme == "file":
        folder = Path(unquote(parts.path))
        yield check_cache_disk(capacity, next(each for each in (folder, *folder.parents) if each.is_dir()))
    yield check_memory()


def _check_ports(loaded_settings: LoadedSettings) -> Iterator[Finding]:
    settings = loaded_settings.by_class.get("ServiceSettings")
    servers = loaded_settings.value("ServiceSettings", "demo_servers")
    if settings is None or not isinstance(servers, tuple) or missing_packages({"": ("psutil", "httpx")})[""]:
        yield note("ports", "not checked: the extra servers is not installed, so no local servers can be started")
        return
    required_servers = (
        ("postgres",)
        if "airflow" in servers and loaded_settings.value("ServiceSettings", "airflow_database") == "postgres"
        else ()
    )
    yield from check_ports(settings, (*required_servers, *servers))


def _print_findings(findings: Sequence[Finding], as_json: bool) -> None:
    problem_count = count_problems(findings)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        print("\n".join(line for finding in findings for line in finding.lines()))
        print(f"\n{format_count(problem_count, 'problem')}" if problem_count else "\nNo problems found.")
    if problem_count:
        raise typer.Exit(EXIT_CONDITION_FAILED)
