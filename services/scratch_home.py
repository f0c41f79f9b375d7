"""Settings for an additional home folder, with ports that are free at the moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from springline.services.process.ports import free_ports
from springline.services.settings import ServiceSettings


def scratch_settings(home: Path, **overrides: Any) -> ServiceSettings:
    """Return settings of a home whose servers use free ports; `overrides` are settings by name, used unchanged."""
    ports = {name for name in ServiceSettings.model_fields if name.endswith("_port")} - overrides.keys()
    settings = ServiceSettings(home=home, **overrides)
    port_counts = {"spark_worker_port": 2 * settings.spark_workers, "hdfs_datanode_port": 3 * settings.hdfs_datanodes}
    port_counts |= {"alluxio_worker_port": 5 * settings.alluxio_workers, "alluxio_job_port": 2}
    first = free_ports(sum(port_counts.get(name, 1) for name in ports))
    assigned_ports: dict[str, int] = {}
    for name in sorted(ports):
        assigned_ports[name] = first
        first += port_counts.get(name, 1)
    return settings.model_copy(update=assigned_ports)
