"""The commands `springline doctor` and `springline config check`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import typer

from springline.doctor.findings import Finding, note, problems
from springline.doctor.machine import (
    check_cache_memory,
    check_disk,
    check_extras,
    check_java,
    check_memory,
    check_python,
    missing_packages,
    packages_of_extras,
)
from springline.doctor.servers import check_ports, check_servers
from springline.doctor.settings import Read, check_settings, needed_extras
from springline.persistence.commands.arguments import NOT_SO, Json
from springline.persistence.text.formatting import counted
from springline.persistence.text.terminal import print, print_json, progress


def doctor(as_json: Json = False) -> None:
    """Say what is missing here, with the remedy of each: Python, Java, packages, disk, memory, settings, servers.

    Nothing is changed by it. Exit status 3: something is missing.
    """
    with progress("looking", quiet=as_json):
        read = _read_quietly()
        findings = [*_machine(read), *check_settings(read), *_ports(read), *check_servers(read)]
    _tell(findings, as_json)


def check_config(as_json: Json = False) -> None:
    """Check settings, springline.toml, streams.toml and alerts.toml: names, values, files, modules.

    No server is asked. Exit status 3: something is wrong.
    """
    with progress("reading settings", quiet=as_json):
        findings = list(check_settings(_read_quietly()))
    _tell(findings, as_json)


def _read_quietly() -> Read:
    """The settings; what would be warned of when they are read is a finding here."""
    logging.getLogger("springline.settings").setLevel(logging.ERROR)
    return Read()


def _machine(read: Read) -> Iterator[Finding]:
    missing = missing_packages(packages_of_extras())
    yield check_python()
    yield from check_extras(needed_extras(read), missing)
    yield check_java(missing)
    if isinstance(home := read.value("Settings", "home"), Path):
        yield check_disk(home)
    capacity = read.value("Settings", "cache_capacity")
    if isinstance(capacity, int) and not read.value("Settings", "cache_uri"):
        yield check_cache_memory(capacity)
    yield check_memory()


def _ports(read: Read) -> Iterator[Finding]:
    settings = read.by_class.get("ServiceSettings")
    servers = read.value("ServiceSettings", "servers")
    if settings is None or not isinstance(servers, tuple) or missing_packages({"": ("psutil", "httpx")})[""]:
        yield note("ports", "not looked at: the extra servers is not installed, so none is started here")
        return
    needs = (
        ("postgres",)
        if "airflow" in servers and read.value("ServiceSettings", "airflow_database") == "postgres"
        else ()
    )
    yield from check_ports(settings, (*needs, *servers))


def _tell(findings: Sequence[Finding], as_json: bool) -> None:
    wrong = problems(findings)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        print("\n".join(line for finding in findings for line in finding.lines()))
        print(f"\n{counted(wrong, 'problem')}" if wrong else "\nAll is well.")
    if wrong:
        raise typer.Exit(NOT_SO)
