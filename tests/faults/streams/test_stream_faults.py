"""Many rows through a stream that is killed again and again, alone and on a cluster with zombies."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import psutil
import pytest

from springline.spark_jobs.streaming.examples.netflow import Flows
from tests.support.servers.servers import Running
from tests.support.streams.stream_job import StreamJob, expected

pytestmark = pytest.mark.nightly("applications and executors are started again")

SEED = 1


def test_every_row_is_counted_once_whatever_dies(make_job: Callable[..., StreamJob], kafka: Running) -> None:
    """Worker, driver, JVM and broker are killed, states and checkpoints deleted, in a random order; two units share 24
    partitions.

    What is deleted ends the application, and so does the kill that follows: it is started once for both.
    """
    flows = Flows(240_000, seed=SEED, sips=200, rate=15_000, disorder=0.02)
    interval = {"SPRINGLINE_STREAM_TRIGGER_INTERVAL": "0.2"}
    job = make_job(flows, size=1_000, admitted=2, partitions=24, **interval)  # 60 rounds, over 12 s

    def lose_states_and_jvm() -> None:
        job.lose_states()
        job.kill("jvm")

    def lose_checkpoints_and_driver() -> None:
        job.lose_checkpoints()
        job.kill("driver")

    faults = [partial(job.kill, "worker"), lambda: kafka.restart("broker"),
              lose_states_and_jvm, lose_checkpoints_and_driver]  # fmt: skip
    assert job.apply_faults(faults, random.Random(SEED)) > len(faults) // 2
    job.await_rows(flows.rows, patience=400)
    job.stop()
    assert job.results() == expected(flows)


def test_abandoned_executors_that_wake_again_disturb_no_other(
    make_job: Callable[..., StreamJob], spark: Running
) -> None:
    """An executor is stopped beyond its heartbeat, and goes on when another one has taken its units over.

    What a zombie sends and writes is dropped. An executor is killed besides, on this cluster of two workers.
    """
    flows = Flows(100_000, seed=3, sips=200, rate=10_000)
    conf = {
        "spark.executor.cores": "2",
        "spark.cores.max": "4",
        "spark.executor.memory": "512m",
        "spark.executor.heartbeatInterval": "1s",
        "spark.network.timeout": "10s",  # less would give up executors that a busy machine lets wait
        "spark.network.timeoutInterval": "1s",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    job = make_job(
        flows, size=1_000, admitted=1,
        SPRINGLINE_STREAM_MASTER=spark.address, SPRINGLINE_STREAM_CONF=json.dumps(conf),
        SPRINGLINE_STREAM_TRIGGER_INTERVAL="0.2",
    )  # fmt: skip
    job.start()
    job.await_round(4)
    stopped = _executor(spark)
    _signal(stopped, signal.SIGSTOP)
    job.await_rounds(6)  # in every stage, which is more than were under way: its units have been taken over
    other = _executor(spark)
    _signal(stopped, signal.SIGCONT)
    _signal(other, signal.SIGKILL)
    job.await_rows(flows.rows, patience=400)
    job.stop()
    assert job.results() == expected(flows)


def _executor(spark: Running) -> list[psutil.Process]:
    """An executor that lives, with the Python processes that it started."""
    for pid in spark.processes.values():
        for process in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                backend = "CoarseGrainedExecutorBackend" in " ".join(process.cmdline())
                if backend and process.status() != psutil.STATUS_STOPPED:
                    return [process, *process.children(recursive=True)]
    raise AssertionError("no executor lives")


def _signal(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
