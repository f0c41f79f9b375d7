"""Fetches the servers' jars into a folder that all homes share, by the Apache Ivy that ships inside PySpark."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from springline.persistence.private_files import write_private
from springline.persistence.text.redaction import redacted
from springline.persistence.text.terminal import print
from springline.services.errors import JarsNotFoundError
from springline.services.packages.coordinates import JarSet, ivy_module, ivy_settings, jar_set, mirror
from springline.services.packages.java import find_java, spark_home
from springline.services.packages.truststore import java_options
from springline.services.settings import ServiceSettings

_STAMP = "complete.json"
_STEP = 25  # modules or jars from one line of progress to the next


class Jars:
    """The folder of jars: one folder a set, with a stamp that tells a complete one."""

    def __init__(self, settings: ServiceSettings, say: Callable[[str], None] = print) -> None:
        self._settings = settings
        self._folder = settings.jars_folder
        self._say = say

    def folder(self, name: str) -> Path:
        """The folder of the set's jars, fetched first if any is missing; raises `JarsNotFoundError`."""
        wanted = jar_set(name)
        if not self.complete(wanted):
            with self._locked():
                if not self.complete(wanted):
                    self._fetch(wanted)
        return self._folder / name

    def complete(self, wanted: JarSet) -> bool:
        """Whether every jar of the set is there, for the coordinates that are wanted now."""
        folder = self._folder / wanted.name
        try:
            stamp = json.loads((folder / _STAMP).read_text())
            return bool(stamp["coordinates"] == wanted.fingerprint and stamp["jars"] == sizes(folder))
        except FileNotFoundError:
            return False
        except (ValueError, KeyError, TypeError) as error:
            self._say(f"jars of {wanted.name}: {folder / _STAMP} is damaged ({error}), so they are fetched anew")
            return False

    def _fetch(self, wanted: JarSet) -> None:
        work = self._folder / f"{wanted.name}.half"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        module, settings = work / "ivy.xml", work / "ivysettings.xml"
        module.write_text(ivy_module(wanted))
        write_private(settings, ivy_settings(wanted, self._folder / "cache", self._repository()))
        self._say(f"jars of {wanted.name}: asking what is needed (minutes the first time, then never again) …")
        java = find_java(os.environ, self._settings.home)
        options = java_options(self._folder / "trusted.p12") if java.packaged else ()
        (ivy,) = (spark_home() / "jars").glob("ivy-*.jar")
        pattern = str(work / "[artifact]-[revision](-[classifier]).[ext]")
        command = [str(java.home / "bin" / "java"), *options]
        command += ["-cp", str(ivy), "org.apache.ivy.Main", "-settings", str(settings), "-ivy", str(module)]
        log = self._folder / f"{wanted.name}.log"
        try:
            code = self._run([*command, "-retrieve", pattern], wanted.name, log)
        finally:
            settings.unlink()  # it may hold the repository's password
        found = sizes(work)
        if code or not found:
            told = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
            trouble = [line for line in told if "::" in line and "UNRESOLVED" not in line] or told
            raise JarsNotFoundError(
                f"the jars of {wanted.name} could not be fetched; the whole story is in {log}. If Maven Central "
                f"cannot be reached from here, name another repository: SPRINGLINE_MAVEN=…\n" + "\n".join(trouble[-12:])
            )
        (work / _STAMP).write_text(json.dumps({"coordinates": wanted.fingerprint, "jars": found}, indent=1) + "\n")
        target = self._folder / wanted.name
        shutil.rmtree(target, ignore_errors=True)
        work.replace(target)
        self._say(f"jars of {wanted.name}: {len(found)} jars, {sum(found.values()) / 1e6:.0f} MB in {target}")

    def _run(self, command: list[str], name: str, log: Path) -> int:
        """Run Ivy, tell how far it is, and keep what it prints."""
        counts = {"modules found": 0, "jars fetched": 0}
        with (
            log.open("w") as out,
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            ) as ivy,
        ):
            assert ivy.stdout is not None
            for line in ivy.stdout:
                out.write(redacted(line))
                step = step_of(line)
                if step:
                    counts[step] += 1
                    if counts[step] % _STEP == 0:
                        self._say(f"jars of {name}: {counts[step]} {step}")
        return ivy.returncode

    def _repository(self) -> str:
        if self._settings.maven:
            return self._settings.maven
        try:
            return mirror((Path.home() / ".m2" / "settings.xml").read_text())
        except FileNotFoundError:
            return ""

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def sizes(folder: Path) -> dict[str, int]:
    """The jars in a folder, by name, with their sizes."""
    return {path.name: path.stat().st_size for path in sorted(folder.glob("*.jar"))}


def step_of(line: str) -> str:
    """What one line that Ivy prints counts as; empty: nothing."""
    text = line.strip()
    if text.startswith("found "):
        return "modules found"
    return "jars fetched" if text.startswith("[SUCCESSFUL ]") else ""
