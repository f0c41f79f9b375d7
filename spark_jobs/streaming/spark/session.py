"""The Spark session of a streaming application: short batches, no servers that listen on the network."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.profile import setting_variables
from springline.spark_jobs.jvm.class_archive import class_sharing_options
from springline.spark_jobs.jvm.java import use_java
from springline.spark_jobs.jvm.secret_conf import hide_secret_conf
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.spark import worker_daemon

logger = logging.getLogger("springline.stream")

_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# The parent process may be a client of a Spark Connect server; an application is not.
_CLIENT_VARIABLES = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE")
_JSON_LINES = "-Dlog4j2.configurationFile=classpath:org/apache/spark/log4j2-json-layout.properties"
WORKER_PYTHON = Path(__file__).with_name("worker-python")
_EXECUTORS_SECONDS = 20.0  # until all executors are registered


def start_session(name: str, settings: StreamSettings) -> Future[SparkSession]:
    """Open a session in a thread: Spark takes seconds, in which its application loads its code."""
    thread = ThreadPoolExecutor(1, "spark")
    session = thread.submit(open_session, name, settings)
    thread.shutdown(wait=False)
    return session


def open_session(name: str, settings: StreamSettings) -> SparkSession:
    """Create the session for the application of the job `name`; raises `NoJava`."""
    java_home = use_java(settings.home)
    for variable in _CLIENT_VARIABLES:
        os.environ.pop(variable, None)
    monitoring = MonitoringSettings()
    java = " ".join(
        (*_JAVA, class_sharing_options(java_home), *((_JSON_LINES,) if monitoring.log_format == "json" else ()))
    )
    # Spark's temporary files go to the job's folder: in the machine's they would remain whenever Spark is killed.
    scratch = settings.folder(name).own_scratch.resolve()
    scratch.mkdir(parents=True, exist_ok=True)
    conf = {
        "spark.driver.memory": settings.stream_memory,
        "spark.driver.extraJavaOptions": f'{java} "-Djava.io.tmpdir={scratch}"',
        "spark.local.dir": str(scratch),
        "spark.executor.extraJavaOptions": java,
        "spark.executorEnv.SPRINGLINE_LOG_FORMAT": monitoring.log_format,
        "spark.executorEnv.SPRINGLINE_LOG_LEVEL": monitoring.log_level,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(settings.home / "spark" / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "4",
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.streaming.pollingDelay": "50ms",  # between two questions to a planner that is paused
        # Save 75 ms per round each. The check before a rename is not atomic: enough, as the rounds log fences drivers.
        "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.python.worker.reuse": "true",
        "spark.python.daemon.module": worker_daemon.MODULE,
        "spark.executorEnv.SPRINGLINE_WORKER_PYTHON": sys.executable,
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    if settings.stream_master.startswith("local"):
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    else:
        conf[f"spark.executorEnv.{worker_daemon.SETTINGS}"] = json.dumps(setting_variables())
    os.environ["PYSPARK_PYTHON"] = str(WORKER_PYTHON)  # on this machine and on those of executors
    for threads in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS"):
        os.environ.setdefault(threads, "1")
        conf[f"spark.executorEnv.{threads}"] = "1"
    builder = SparkSession.builder.appName(f"Springline {name}").master(settings.stream_master)
    with hide_secret_conf({**conf, **settings.stream_conf}) as shown:
        session = builder.config(map=shown).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def set_step_modules(session: SparkSession, modules: Collection[str]) -> None:
    """Name the modules of the steps, which the daemon of Python workers imports before it forks the first of them."""
    session.sparkContext.environment[worker_daemon.STEP_MODULES] = ",".join(sorted(modules))


def has_slots(session: SparkSession, required: int, say: Callable[[str], None]) -> bool:
    """Return whether the tasks of all stages can run at once, after waiting for executors (said by `say`)."""
    until = time.monotonic() + _EXECUTORS_SECONDS
    reported = -1
    while (slots := session.sparkContext.defaultParallelism) < required and time.monotonic() < until:
        if str(session.sparkContext.master).startswith("local"):
            break
        if slots != reported:
            say(f"waiting for executors: Spark runs {slots} tasks at once, {required} are needed")
            reported = slots
        time.sleep(0.2)
    if slots < required:
        logger.warning("Spark runs %s tasks at once, %s are needed: each round is a separate batch", slots, required)
    return slots >= required
