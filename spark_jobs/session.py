"""The only place that creates a SparkSession: from a Spark Connect server or a master URL, as the settings say."""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from grpc import RpcError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from springline.persistence.text.redaction import redact_secrets
from springline.spark_jobs.errors import SparkUnavailableError
from springline.spark_jobs.jvm.class_archive import class_sharing_options
from springline.spark_jobs.jvm.java import use_java
from springline.spark_jobs.jvm.secret_conf import hide_secret_conf
from springline.spark_jobs.settings import JobSettings

_CONNECT_PORT = 15002
_REACH_SECONDS = 2.0
_POLL_SECONDS = 0.5
# In total about 8 s: longer than a network hiccup, but short enough to detect a dead server.
_RETRIES = 5
_BACKOFF_MILLISECONDS = 4000


@dataclass(frozen=True)
class Address:
    """The address of a Spark Connect server."""

    host: str
    port: int

    @staticmethod
    def parse(remote: str) -> Address:
        """Parse `sc://host:port/;options`.

        Raises `SparkUnavailableError`, whose message omits the options because they may contain a token.
        """
        try:
            parts = urlsplit(remote)
            host, port = parts.hostname, parts.port or _CONNECT_PORT
        except ValueError:
            parts, host, port = None, "", 0
        if parts is None or parts.scheme != "sc" or not host:
            redacted_remote = redact_secrets(remote.partition(";")[0])
            raise SparkUnavailableError(
                f"SPRINGLINE_SPARK_REMOTE={redacted_remote!r}: write the address as sc://host:port"
            )
        return Address(host, port)

    def is_reachable(self) -> bool:
        """Return whether the address accepts connections."""
        try:
            with socket.create_connection((self.host, self.port), timeout=_REACH_SECONDS):
                return True
        except OSError:
            return False


class SparkSessions:
    """Provides the session that the settings name, and a new one after its server died and was restarted."""

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
        self._hadoop_conf: dict[str, str] = {}  # of the clients with which Spark reaches the stores

    def get(self) -> SparkSession:
        """Return a usable session.

        Waits `spark_timeout` seconds for an unavailable server, then raises `SparkUnavailableError`.
        """
        with self._lock:
            if self._session is None or not self._is_usable(self._session):
                self._drop_session()
                self._session = self._connect() if self._settings.spark_remote else self._start()
                self._apply_hadoop_conf(self._session)
            return self._session

    def configure_hadoop(self, conf: Mapping[str, str]) -> None:
        """Reach stores with these settings of Hadoop's clients, from the session that is open and from later ones."""
        with self._lock:
            self._hadoop_conf |= conf
            if conf and self._session is not None and self._is_usable(self._session):
                self._apply_hadoop_conf(self._session)

    def is_lost(self) -> bool:
        """Return whether the session that was provided last is no longer usable."""
        with self._lock:
            return self._session is not None and not self._is_usable(self._session)

    def interrupt(self, tag: str) -> None:
        """Interrupt the jobs with `tag` in the last provided session; no effect if its server is unavailable."""
        session = self._session
        if session is not None:
            # gRPC raises errors while a call or the session ends; the caller interrupts again if necessary.
            with suppress(PySparkException, RpcError):
                session.interruptTag(tag)

    def close(self) -> None:
        """Close the session; a Spark Connect server keeps running."""
        with self._lock:
            if self._session is not None and self._is_usable(self._session):
                self._session.stop()
                self._session = None
            self._drop_session()

    def _connect(self) -> SparkSession:
        remote = self._settings.spark_remote
        address = Address.parse(remote)
        deadline = self._clock() + self._settings.spark_timeout
        while True:
            problem = "no listener"
            if address.is_reachable():
                try:
                    session = SparkSession.builder.remote(remote).create()
                    _limit_retries(session)
                    for key, value in self._conf().items():  # the first request to the server
                        session.conf.set(key, value)
                    return session
                except PySparkException as error:
                    problem = redact_secrets(str(error).partition("\n")[0])
            if self._clock() >= deadline:
                raise SparkUnavailableError(
                    f"no Spark Connect server responds at {address.host}:{address.port} ({problem}): start one with"
                    " `springline up spark-connect`, set SPRINGLINE_SPARK_REMOTE to another address,"
                    " or unset it to run Spark in this process"
                )
            self._sleep(_POLL_SECONDS)

    def _start(self) -> SparkSession:
        java_home = use_java(self._settings.home)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        master = self._settings.spark_master
        builder = SparkSession.builder.appName("Springline").master(master)
        defaults: dict[str, bool | float | int | str | None] = {
            "spark.driver.memory": self._settings.spark_memory,
            "spark.sql.shuffle.partitions": _cores(master),
            "spark.sql.warehouse.dir": str(self._settings.home / "spark" / "warehouse"),
            "spark.sql.catalogImplementation": "in-memory",
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": class_sharing_options(java_home),
        }
        if master.startswith("local"):
            defaults |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        try:
            with hide_secret_conf({**defaults, **self._conf()}) as visible_conf:
                return builder.config(map=visible_conf).getOrCreate()
        except (PySparkException, RuntimeError) as error:
            raise SparkUnavailableError(
                f"Spark could not be started with SPRINGLINE_SPARK_MASTER={master!r}: {redact_secrets(str(error))}"
            ) from error

    def _conf(self) -> dict[str, str]:
        return {
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
            **self._settings.spark_conf,
        }

    def _apply_hadoop_conf(self, session: SparkSession) -> None:
        for (
            name,
            value,
        ) in self._hadoop_conf.items():  # which Spark passes to Hadoop for this session's reads and writes
            session.conf.set(name, value)

    def _is_usable(self, session: SparkSession) -> bool:
        if remote := self._settings.spark_remote:
            if not Address.parse(remote).is_reachable():
                return False
            # No retries: after an outage of its server, a channel keeps refusing for a while; a new channel does not.
            retry_policies = session.client.get_retry_policies()
            session.client.set_retry_policies([])
            try:
                session.conf.get("spark.sql.session.timeZone")
                return True
            except PySparkException:
                return False
            finally:
                session.client.set_retry_policies(retry_policies)
        return not _is_stopped(session)

    def _drop_session(self) -> None:
        if self._session is not None and self._settings.spark_remote:
            self._session.release_session_on_close = False  # type: ignore[attr-defined]  # its server is dead
            self._session.stop()
        self._session = None


def _limit_retries(session: SparkSession) -> None:
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES, max_backoff=_BACKOFF_MILLISECONDS)])


def _is_stopped(session: SparkSession) -> bool:
    context = session.sparkContext
    return context._jsc is None or bool(context._jsc.sc().isStopped())


def _cores(master: str) -> str:
    match = re.fullmatch(r"local\[(\d+)(?:,\d+)?\]", master)
    return match.group(1) if match else "4"
