"""Settings for a home beside others: every port that they name is free at the moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from springline.services.process.ports import free_ports
from springline.services.settings import ServiceSettings


def beside(home: Path, **chosen: Any) -> ServiceSettings:
    """The settings of a home whose servers get in nobody's way; `chosen` are taken as they are."""
    ports = {name for name in ServiceSettings.model_fields if name.endswith("_port")} - chosen.keys()
    plain = ServiceSettings(home=home, **chosen)
    rows = {"spark_worker_port": 2 * plain.spark_workers, "hdfs_datanode_port": 3 * plain.hdfs_datanodes}
    rows |= {"alluxio_worker_port": 5 * plain.alluxio_workers, "alluxio_job_port": 2}
    first = free_ports(sum(rows.get(name, 1) for name in ports))
    given: dict[str, int] = {}
    for name in sorted(ports):
        given[name] = first
        first += rows.get(name, 1)
    return plain.model_copy(update=given)
