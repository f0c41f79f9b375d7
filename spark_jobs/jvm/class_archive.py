"""The archive of Spark's classes, with which its JVM starts in half the time (Java's class data sharing).

A JVM spends most of its startup reading and verifying about ten thousand classes of Spark's jars. The archive stores
them in their in-memory form. Java uses it only with exactly the jars and the Java that it was created with, and starts
without it otherwise. It is stored in the Python environment, beside the jars; `make setup` creates it.
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
# An archive that does not match is not worth a warning in a job's log.
_SILENT_OPTIONS = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_TIMEOUT_SECONDS = 300.0  # for creating one


def class_sharing_options(java_home: Path) -> str:
    """Return the options with which this Java uses the archive; empty if there is none for it."""
    archive = archive_of(java_home)
    return f'"-XX:SharedArchiveFile={archive}" {_SILENT_OPTIONS}' if archive.exists() else ""


def archive_of(java_home: Path) -> Path:
    """Return the path of the archive for this Java and the installed Spark, whether or not it exists."""
    library = (java_home / "lib" / "server" / "libjvm.so").resolve()
    library_stat = library.stat() if library.exists() else None
    java_identity = (str(library), library_stat and library_stat.st_size, library_stat and library_stat.st_mtime_ns)
    digest = hashlib.sha256(repr(java_identity).encode()).hexdigest()[:12]
    return Path(sys.prefix).resolve() / "share" / "springline" / f"{_spark_version()}-{digest}.jsa"


def _spark_version() -> str:
    return f"spark-{version('pyspark')}"


def make_archive(home: Path) -> Path:
    """Create the archive for the Java that is found, unless it exists.

    Raises `ClassArchiveError`, `JavaUnavailableError`.

    A separate Spark process runs a workload like that of jobs. The archive is written atomically, because a JVM crashes
    with an incomplete one.
    """
    archive = archive_of(find_java(os.environ, home).home)
    if archive.exists():
        return archive
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="half-", dir=archive.parent) as folder:
            half = Path(folder) / "classes.jsa"
            completed = subprocess.run(
                [sys.executable, "-m", _WORKLOAD, str(half), str(home)],
                env={name: value for name, value in os.environ.items() if not name.startswith("SPARK_")},
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False,
            )  # fmt: skip
            if completed.returncode or not half.exists():
                last = (completed.stderr or completed.stdout).strip().rpartition("\n")[2]
                raise ClassArchiveError(
                    f"Java did not create an archive of Spark's classes: "
                    f"{last or f'exit status {completed.returncode}'}"
                )
            half.replace(archive)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClassArchiveError(f"Java did not create an archive of Spark's classes at {archive}: {error}") from error
    for other in archive.parent.glob("spark-*.jsa"):
        if not other.name.startswith(f"{_spark_version()}-"):
            other.unlink(missing_ok=True)
    return archive
