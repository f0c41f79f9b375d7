"""A real server that a test may use, and harm."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient

from springline.services.process.groups import is_leader
from springline.services.process.run_state import ServerRecords
from springline.services.registry import make_servers
from springline.services.settings import ServiceSettings
from springline.services.supervisor import Supervisor
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka


@dataclass(frozen=True)
class Running:
    """A server that serves at `address`, in the home and on the ports of `settings`."""

    name: str
    address: str
    settings: ServiceSettings
    supervisor: Supervisor

    def kill(self, process: str) -> None:
        """Kill one of its processes with -9."""
        self.supervisor.kill(self.name, process)

    @contextmanager
    def cut_off(self, process: str) -> Iterator[None]:
        """One of its processes does not answer for a while, and all it was asked is answered late: a partition."""
        pid = self.processes[process]
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def restart(self, process: str) -> None:
        """Kill one of its processes with -9, and start it again."""
        self.kill(process)
        self.restart_stopped()

    def restart_stopped(self) -> None:
        """Start what has ended of it, and wait until it is ready."""
        self.supervisor.up(make_servers([self.name], self.settings), 240)

    @contextmanager
    def log(self) -> Iterator[Kafka]:
        """The log of this Kafka, over connections that end with the context."""
        with closing(Kafka(Cluster(self.address))) as log:
            yield log

    def forget_topics(self) -> None:
        """Delete every topic of this Kafka: jobs of the same names start from scratch."""
        admin = AdminClient({"bootstrap.servers": self.address})
        own = [topic for topic in admin.list_topics(timeout=30).topics if not topic.startswith("__")]
        for deletion in admin.delete_topics(own).values() if own else ():
            deletion.result()

    @property
    def processes(self) -> dict[str, int]:
        """The ids of its processes that live, by name."""
        record = ServerRecords(self.settings.home / "run").load(self.name)
        return {each.name: each.pid for each in record.processes if is_leader(each)} if record else {}
