"""The tracker alone on the real Kafka and Spark: threads ack what they process, and receive what was lost."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import pytest

from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from springline.spark_jobs.streaming.tracker.client import Tracker
from tests.support.servers.servers import Running
from tests.support.streams.application import Application

ROOTS = [*range(300), 1 << 63, (1 << 64) - 2]
LOST = set(ROOTS[::10])  # in their first attempt

Tuple = tuple[int, int, int, bool]  # root, attempt, edge, whether it is a leaf


@pytest.fixture
def job(kafka: Running, tmp_path: Path) -> Iterator[Application]:
    """A tracker; ends whatever lives of it."""
    name = f"tracker_{uuid.uuid4().hex[:8]}"
    declared = f'[{name}]\nkind = "tracker"\n\n[{name}.tracking]\ntimeout = 3.0\n'
    application = Application(kafka, tmp_path / "home", name, declared)
    yield application
    application.close()


def process(servers: str, job: str, tuples: Queue[Tuple | None]) -> None:
    """The processors of the topology: a tuple that is no leaf emits two; some acks are lost."""
    with Tracker(servers, job) as tracker:
        while (message := tuples.get()) is not None:
            root, attempt, edge, leaf = message
            emitted = [] if leaf else [tracker.edge(), tracker.edge()]
            for child in emitted:
                tuples.put((root, attempt, child, True))
            if not (leaf and attempt == 1 and root in LOST):
                tracker.ack(root, edge, emitted, attempt)
            if tuples.empty():
                tracker.flush()


def test_a_topology_that_is_not_ours_hears_what_was_finished_and_what_was_lost(job: Application) -> None:
    """Each attempt once; what failed is finished in its second. Bad messages are reported, and the job stops."""
    servers = job.kafka.address
    job.start()
    job.await_(lambda status: status.is_ready, patience=240)
    tuples: Queue[Tuple | None] = Queue()
    processors = threading.Thread(target=process, args=(servers, job.name, tuples))
    outcomes: list[tuple[int, int, str]] = []
    with Tracker(servers, job.name) as spring:

        def send(root: int, attempt: int) -> None:
            edges = [spring.edge(), spring.edge()]
            spring.begin(root, edges, attempt)
            for edge in edges:
                tuples.put((root, attempt, edge, False))

        for root in ROOTS:
            send(root, 1)
        processors.start()
        try:
            until = time.monotonic() + 60
            while len(outcomes) < len(ROOTS) + len(LOST) and time.monotonic() < until:
                for root, attempt, outcome in spring.outcomes(1.0):
                    outcomes.append((root, attempt, outcome))
                    if outcome == "failed":
                        send(root, attempt + 1)
        finally:
            tuples.put(None)
            processors.join()
    finished = [(root, 2 if root in LOST else 1, "finished") for root in ROOTS]
    assert sorted(outcomes) == sorted([*finished, *((root, 1, "failed") for root in LOST)]), job.log()

    with job.kafka.log() as log, log.record_sender() as sending:
        sending.send(OutgoingRecord(f"{job.name}.requests", 0, b"hello"))
    status = job.await_(
        lambda status: status.stages["intake"]["counts"].get("dead_letters", 0) == 1, patience=30, restart=False
    )
    assert (status.tracking["completed"], status.tracking["failed"]) == (len(ROOTS), len(LOST))
    assert "not an Arrow stream" in job.run("dead-letters")
    job.stop()
    assert job.status().state == "stopped"
