"""The one place that makes a SparkSession: from a Spark Connect server, or from a master URL, by setting."""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from grpc import RpcError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from springline.persistence.text.redaction import redacted
from springline.spark_jobs.errors import SparkUnavailableError
from springline.spark_jobs.jvm.class_archive import sharing
from springline.spark_jobs.jvm.java import use_java
from springline.spark_jobs.jvm.secret_conf import kept_from_arguments
from springline.spark_jobs.settings import JobSettings

_CONNECT_PORT = 15002
_REACH_SECONDS = 2.0
_POLL_SECONDS = 0.5
# Together about 8 s: a hiccup of the network passes, a dead server is noticed.
_RETRIES = 5
_BACKOFF_MILLISECONDS = 4000


@dataclass(frozen=True)
class Address:
    """Where a Spark Connect server listens."""

    host: str
    port: int

    @staticmethod
    def parse(remote: str) -> Address:
        """Read `sc://host:port/;options`.

        Raises `SparkUnavailableError`, which tells nothing of the options: a token is one.
        """
        try:
            parts = urlsplit(remote)
            host, port = parts.hostname, parts.port or _CONNECT_PORT
        except ValueError:
            parts, host, port = None, "", 0
        if parts is None or parts.scheme != "sc" or not host:
            told = redacted(remote.partition(";")[0])
            raise SparkUnavailableError(f"SPRINGLINE_SPARK_REMOTE={told!r}: give the address as sc://host:port")
        return Address(host, port)

    def answers(self) -> bool:
        """Whether anything accepts connections there."""
        try:
            with socket.create_connection((self.host, self.port), timeout=_REACH_SECONDS):
                return True
        except OSError:
            return False


class SparkSessions:
    """Hands out the session that the settings name, and a new one after its server died and came back."""

    def __init__(
        self,
        settings: JobSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._session: SparkSession | None = None

    def get(self) -> SparkSession:
        """A session that works.

        Waits `spark_patience` seconds for a server that is away, then raises `SparkUnavailableError`.
        """
        with self._lock:
            if self._session is None or not self._works(self._session):
                self._forget()
                self._session = self._connect() if self._settings.spark_remote else self._start()
            return self._session

    def lost(self) -> bool:
        """Whether the session that was handed out last works no more."""
        with self._lock:
            return self._session is not None and not self._works(self._session)

    def interrupt(self, tag: str) -> None:
        """End what runs under `tag` in the session that was handed out last; does nothing if its server is away."""
        session = self._session
        if session is not None:
            # gRPC has errors of its own while a call or the session ends; who interrupts looks again.
            with suppress(PySparkException, RpcError):
                session.interruptTag(tag)

    def close(self) -> None:
        """End the session; a server goes on."""
        with self._lock:
            if self._session is not None and self._works(self._session):
                self._session.stop()
                self._session = None
            self._forget()

    def _connect(self) -> SparkSession:
        remote = self._settings.spark_remote
        address = Address.parse(remote)
        deadline = self._clock() + self._settings.spark_patience
        while True:
            problem = "nothing listens there"
            if address.answers():
                try:
                    session = SparkSession.builder.remote(remote).create()
                    _be_brief(session)
                    for key, value in self._conf().items():  # the first thing that is asked of the server
                        session.conf.set(key, value)
                    return session
                except PySparkException as error:
                    problem = redacted(str(error).partition("\n")[0])
            if self._clock() >= deadline:
                raise SparkUnavailableError(
                    f"no Spark Connect server answers at {address.host}:{address.port} ({problem}): start one with"
                    " `springline up spark-connect`, give another address with"
                    " SPRINGLINE_SPARK_REMOTE, or unset it to run Spark in this process"
                )
            self._sleep(_POLL_SECONDS)

    def _start(self) -> SparkSession:
        java_home = use_java(self._settings.home)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        master = self._settings.spark_master
        builder = SparkSession.builder.appName("Springline").master(master)
        own: dict[str, bool | float | int | str | None] = {
            "spark.driver.memory": self._settings.spark_memory,
            "spark.sql.shuffle.partitions": _cores(master),
            "spark.sql.warehouse.dir": str(self._settings.home / "spark" / "warehouse"),
            "spark.sql.catalogImplementation": "in-memory",
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": sharing(java_home),
        }
        if master.startswith("local"):
            own |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        try:
            with kept_from_arguments({**own, **self._conf()}) as shown:
                return builder.config(map=shown).getOrCreate()
        except (PySparkException, RuntimeError) as error:
            raise SparkUnavailableError(
                f"no Spark could be started with SPRINGLINE_SPARK_MASTER={master!r}: {redacted(str(error))}"
            ) from error

    def _conf(self) -> dict[str, str]:
        return {
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
            **self._settings.spark_conf,
        }

    def _works(self, session: SparkSession) -> bool:
        if remote := self._settings.spark_remote:
            if not Address.parse(remote).answers():
                return False
            # No retries: after its server was away a channel goes on refusing for a while, a new one does not.
            patient = session.client.get_retry_policies()
            session.client.set_retry_policies([])
            try:
                session.conf.get("spark.sql.session.timeZone")
                return True
            except PySparkException:
                return False
            finally:
                session.client.set_retry_policies(patient)
        return not _stopped(session)

    def _forget(self) -> None:
        if self._session is not None and self._settings.spark_remote:
            self._session.release_session_on_close = False  # type: ignore[attr-defined]  # nobody is there to ask
            self._session.stop()
        self._session = None


def _be_brief(session: SparkSession) -> None:
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES, max_backoff=_BACKOFF_MILLISECONDS)])


def _stopped(session: SparkSession) -> bool:
    context = session.sparkContext
    return context._jsc is None or bool(context._jsc.sc().isStopped())


def _cores(master: str) -> str:
    found = re.fullmatch(r"local\[(\d+)(?:,\d+)?\]", master)
    return found.group(1) if found else "4"
