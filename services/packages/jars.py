"""Downloads the servers' jars into a folder that all homes share, with the Apache Ivy that is part of PySpark."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from springline.persistence.private_files import write_private
from springline.persistence.text.redaction import redact_secrets
from springline.persistence.text.terminal import print
from springline.services.errors import JarsNotFoundError
from springline.services.packages.coordinates import JarSet, ivy_module, ivy_settings, jar_set, mirror_url
from springline.services.packages.java import find_java, spark_home
from springline.services.packages.truststore import java_options
from springline.services.settings import ServiceSettings

_STAMP = "complete.json"
_STEP = 25  # modules or jars per line of progress


class Jars:
    """The folder of jars: one folder per set, with a stamp file in each complete one."""

    def __init__(self, settings: ServiceSettings, say: Callable[[str], None] = print) -> None:
        self._settings = settings
        self._folder = settings.jars_folder
        self._say = say

    def folder(self, name: str) -> Path:
        """Return the folder of the set's jars, after downloading missing ones; raises `JarsNotFoundError`."""
        jars = jar_set(name)
        if not self.is_complete(jars):
            with self._locked():
                if not self.is_complete(jars):
                    self._fetch(jars)
        return self._folder / name

    def is_complete(self, jars: JarSet) -> bool:
        """Return whether every jar of the set is present, for the coordinates that are declared now."""
        folder = self._folder / jars.name
        try:
            stamp = json.loads((folder / _STAMP).read_text())
            return bool(stamp["coordinates"] == jars.fingerprint and stamp["jars"] == jar_sizes(folder))
        except FileNotFoundError:
            return False
        except (ValueError, KeyError, TypeError) as error:
            self._say(f"jars of {jars.name}: {folder / _STAMP} is damaged ({error}); downloading them again")
            return False

    def _fetch(self, jars: JarSet) -> None:
        work = self._folder / f"{jars.name}.half"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        module, settings = work / "ivy.xml", work / "ivysettings.xml"
        module.write_text(ivy_module(jars))
        write_private(settings, ivy_settings(jars, self._folder / "cache", self._repository()))
        self._say(f"jars of {jars.name}: resolving dependencies (takes minutes, only the first time) …")
        java = find_java(os.environ, self._settings.home)
        options = java_options(self._folder / "trusted.p12") if java.is_packaged else ()
        (ivy,) = (spark_home() / "jars").glob("ivy-*.jar")
        pattern = str(work / "[artifact]-[revision](-[classifier]).[ext]")
        command = [str(java.home / "bin" / "java"), *options]
        command += ["-cp", str(ivy), "org.apache.ivy.Main", "-settings", str(settings), "-ivy", str(module)]
        log = self._folder / f"{jars.name}.log"
        try:
            code = self._run([*command, "-retrieve", pattern], jars.name, log)
        finally:
            settings.unlink()  # it may hold the repository's password
        for archive in work.glob("*.tar.gz"):
            with tarfile.open(archive) as packed:
                packed.extractall(work, filter="data")
            archive.unlink()
        fetched_sizes = jar_sizes(work)
        if code or not fetched_sizes:
            log_lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
            error_lines = [line for line in log_lines if "::" in line and "UNRESOLVED" not in line] or log_lines
            raise JarsNotFoundError(
                f"the jars of {jars.name} could not be downloaded; see {log}. If Maven Central "
                f"cannot be reached, set SPRINGLINE_MAVEN_REPOSITORY to another repository\n"
                + "\n".join(error_lines[-12:])
            )
        (work / _STAMP).write_text(
            json.dumps({"coordinates": jars.fingerprint, "jars": fetched_sizes}, indent=1) + "\n"
        )
        target = self._folder / jars.name
        shutil.rmtree(target, ignore_errors=True)
        work.replace(target)
        self._say(
            f"jars of {jars.name}: {len(fetched_sizes)} jars, {sum(fetched_sizes.values()) / 1e6:.0f} MB in {target}"
        )

    def _run(self, command: list[str], name: str, log: Path) -> int:
        """Run Ivy, report its progress, and write its output to `log`; returns its exit status."""
        counts = {"modules found": 0, "jars downloaded": 0}
        with (
            log.open("w") as out,
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            ) as ivy,
        ):
            assert ivy.stdout is not None
            for line in ivy.stdout:
                out.write(redact_secrets(line))
                step = progress_step(line)
                if step:
                    counts[step] += 1
                    if counts[step] % _STEP == 0:
                        self._say(f"jars of {name}: {counts[step]} {step}")
        return ivy.returncode

    def _repository(self) -> str:
        if self._settings.maven_repository:
            return self._settings.maven_repository
        try:
            return mirror_url((Path.home() / ".m2" / "settings.xml").read_text())
        except FileNotFoundError:
            return ""

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def jar_sizes(folder: Path) -> dict[str, int]:
    """Return the sizes of the jars in a folder and those below it, in bytes, by path in it."""
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in sorted(folder.rglob("*.jar"))}


def progress_step(line: str) -> str:
    """Return the progress counter that a line of Ivy's output increments, or an empty text."""
    text = line.strip()
    if text.startswith("found "):
        return "modules found"
    return "jars downloaded" if text.startswith("[SUCCESSFUL ]") else ""
