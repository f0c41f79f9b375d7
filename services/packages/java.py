"""The Java of the servers, found by `springline.spark_jobs.jvm.java`, and the command that runs a class of theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from springline.services.errors import JavaNotFoundError
from springline.spark_jobs import errors
from springline.spark_jobs.jvm import java

# One collector thread and the quick compiler alone: these servers share a machine with the work itself.
_SPARING = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true")


@dataclass(frozen=True, slots=True)
class Java(java.Java):
    """A Java that runs servers."""

    def command(
        self, main: str, *, heap: str, classpath: Sequence[str | Path], options: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """The command that runs the class `main`, sparing with memory and threads; append its arguments."""
        return (
            str(self.home / "bin" / "java"),
            f"-Xmx{heap}",
            *_SPARING,
            *options,
            "-cp",
            ":".join(str(each) for each in classpath),
            main,
        )


def find_java(environment: Mapping[str, str], home: Path) -> Java:
    """The Java that was found; raises `JavaNotFoundError`."""
    with _missing_java_told():
        found = java.find_java(environment, home)
    return Java(found.home, found.version, found.words)


def spark_home() -> Path:
    """The folder of PySpark: its jars, Apache Ivy and ZooKeeper among them, and its scripts.

    Raises `JavaNotFoundError`.
    """
    with _missing_java_told():
        return java.spark_home()


@contextmanager
def _missing_java_told() -> Iterator[None]:
    """What Spark jobs raise about Java is an error of the services here."""
    try:
        yield
    except errors.JavaUnavailableError as error:
        raise JavaNotFoundError(str(error)) from error
