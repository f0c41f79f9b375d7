"""Millions of rows through a stream that is killed again and again, alone and on a cluster with zombies."""

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

pytestmark = pytest.mark.nightly("millions of rows while processes are killed")

MILLION = 1_000_000
SEED = 1


def test_every_row_is_counted_once_whatever_dies(make_job: Callable[..., StreamJob], kafka: Running) -> None:
    """Workers are killed twice, driver, JVM and broker once, states and checkpoints deleted, in a random order."""
    flows = Flows(6 * MILLION // 5, seed=SEED, sips=500, rate=200_000, disorder=0.02)
    job = make_job(flows, size=5_000, admitted=2)
    killed = [*(["worker"] * 2), "jvm", "driver"]
    faults = [*(partial(job.kill, each) for each in killed), lambda: kafka.restart("broker"),
              job.lose_states, job.lose_checkpoints]  # fmt: skip
    assert job.apply_faults(faults, random.Random(SEED)) > len(faults) // 2
    job.await_rows(flows.rows, patience=400)
    job.stop()
    assert job.results() == expected(flows)


def test_abandoned_executors_that_wake_again_disturb_no_other(
    make_job: Callable[..., StreamJob], spark: Running
) -> None:
    """On a cluster of two workers: executors are stopped beyond their heartbeat, and go on when others have taken over.

    What a zombie sends and writes is dropped. One executor is killed besides.
    """
    flows = Flows(MILLION, seed=3, sips=500, rate=200_000)
    conf = {
        "spark.executor.cores": "1",
        "spark.cores.max": "4",
        "spark.executor.memory": "512m",
        "spark.executor.heartbeatInterval": "1s",
        "spark.network.timeout": "10s",  # less would give up executors that a busy machine lets wait
        "spark.network.timeoutInterval": "1s",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    job = make_job(
        flows, size=5_000, admitted=1,
        SPRINGLINE_STREAM_MASTER=spark.address, SPRINGLINE_STREAM_CONF=json.dumps(conf),
    )  # fmt: skip
    job.start()
    number = 0
    for _ in range(2):
        number += 4
        job.await_round(number)
        stopped = _executor(spark)
        _signal(stopped, signal.SIGSTOP)
        job.await_round(number + 4, patience=240)  # others have taken its units over
        _signal(stopped, signal.SIGCONT)
    _signal(_executor(spark), signal.SIGKILL)
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
