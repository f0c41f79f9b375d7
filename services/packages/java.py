"""The Java of the servers, found by `springline.spark_jobs.jvm.java`, and the command line that runs a class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from springline.services.errors import JavaNotFoundError
from springline.spark_jobs import errors
from springline.spark_jobs.jvm import java

# A single-threaded collector and only the fast compiler, because the servers share a machine with the workload.
_SPARING_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true")


@dataclass(frozen=True, slots=True)
class ServerJava(java.JavaInstallation):
    """A Java installation for servers."""

    def command(
        self, main: str, *, heap: str, classpath: Sequence[str | Path], options: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Return the command that runs the class `main` with few threads and little memory; append its arguments."""
        return (
            str(self.home / "bin" / "java"),
            f"-Xmx{heap}",
            *_SPARING_OPTIONS,
            *options,
            "-cp",
            ":".join(str(each) for each in classpath),
            main,
        )


def find_java(environment: Mapping[str, str], home: Path) -> ServerJava:
    """Find a Java for the servers; raises `JavaNotFoundError`."""
    with _translated_java_error():
        installation = java.find_java(environment, home)
    return ServerJava(installation.home, installation.version, installation.source)


def spark_home() -> Path:
    """Return the folder of PySpark with its scripts and its jars, which include Apache Ivy and ZooKeeper.

    Raises `JavaNotFoundError`.
    """
    with _translated_java_error():
        return java.spark_home()


@contextmanager
def _translated_java_error() -> Iterator[None]:
    """Convert errors of `spark_jobs` about Java to `JavaNotFoundError`."""
    try:
        yield
    except errors.JavaUnavailableError as error:
        raise JavaNotFoundError(str(error)) from error
