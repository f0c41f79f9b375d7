"""An archive of the classes that Spark loads, from which its JVM starts in half the time (Java's class data sharing).

A JVM spends most of its start with reading and checking some ten thousand classes of Spark's jars. The archive holds
them as they are in memory then. Java takes it only for the very jars and the very Java that it was made with, and
starts without it otherwise. It lies in the Python environment, beside the jars; `make setup` makes it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from springline.spark_jobs.errors import ClassArchiveError
from springline.spark_jobs.jvm.java import find_java

_WORKLOAD = "springline.spark_jobs.jvm.class_archive_workload"
# An archive that does not fit is no news for whoever runs a job.
_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_SECONDS = 300.0  # to make one


def sharing(java_home: Path) -> str:
    """The options with which this Java takes its classes from the archive; empty where there is none for it."""
    archive = archive_of(java_home)
    return f'"-XX:SharedArchiveFile={archive}" {_SILENT}' if archive.exists() else ""


def archive_of(java_home: Path) -> Path:
    """Where the archive for this Java and the installed Spark lies, or is to."""
    library = (java_home / "lib" / "server" / "libjvm.so").resolve()
    made = library.stat() if library.exists() else None
    known = (str(library), made and made.st_size, made and made.st_mtime_ns)
    digest = hashlib.sha256(repr(known).encode()).hexdigest()[:12]
    return Path(sys.prefix).resolve() / "share" / "springline" / f"{_spark()}-{digest}.jsa"


def _spark() -> str:
    return f"spark-{version('pyspark')}"


def make_archive(home: Path) -> Path:
    """Make the archive for the Java that is there, unless it exists.

    Raises `ClassArchiveError`, `JavaUnavailableError`.

    A Spark of its own does for that what jobs do. It comes whole or not at all: a JVM dies of half an archive.
    """
    archive = archive_of(find_java(os.environ, home).home)
    if archive.exists():
        return archive
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="half-", dir=archive.parent) as folder:
            half = Path(folder) / "classes.jsa"
            done = subprocess.run(
                [sys.executable, "-m", _WORKLOAD, str(half), str(home)],
                env={name: value for name, value in os.environ.items() if not name.startswith("SPARK_")},
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False,
            )  # fmt: skip
            if done.returncode or not half.exists():
                last = (done.stderr or done.stdout).strip().rpartition("\n")[2]
                raise ClassArchiveError(
                    f"Java made no archive of Spark's classes: {last or f'exit status {done.returncode}'}"
                )
            half.replace(archive)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClassArchiveError(f"Java made no archive of Spark's classes at {archive}: {error}") from error
    for other in archive.parent.glob("spark-*.jsa"):
        if not other.name.startswith(f"{_spark()}-"):
            other.unlink(missing_ok=True)
    return archive
