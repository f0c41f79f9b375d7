"""The heartbeat of a stream's application: what it reports of stages."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from springline.spark_jobs.streaming.application.application import HeartbeatWriter
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.report import RoundStatus, StateStatus, UnitReport, UnitTotals
from springline.spark_jobs.streaming.runtime.stage import Stage


def test_the_status_of_a_stage_is_from_the_reports_of_its_units(tmp_path: Path) -> None:
    """Those without a report yet count as units; before the first round all else is 0; what holds one is seen."""
    folder = JobFolder(tmp_path / "job")
    folder.path.mkdir()
    first, second = (
        Stage(name, "a:step", "t", units, job="j", hold_files=(hold,))
        for name, units, hold in (("map", 3, "full"), ("reduce", 2, "stop"))
    )
    newest = {
        unit: UnitReport(
            unit,
            RoundStatus(number=7 + unit, lag=lag, seconds={"step": 0.25}, ended_at=5.0, memory=100 * lag),
            UnitTotals({"rows": 10}),
            StateStatus(1_000, "3 rounds after 4" if unit else ""),
        )
        for unit, lag in enumerate((4, 9))
    }  # fmt: skip
    reports = SimpleNamespace(reports=lambda name: newest if name == "map" else {})
    (folder.path / "full").touch()
    HeartbeatWriter("j", folder, (first, second), started_at=4.0, reports=reports).write("running")
    heartbeat = folder.heartbeat() or {}
    assert heartbeat["recovered"] == ["j.map[1]: 3 rounds after 4"]
    stages = heartbeat["stages"]
    assert stages["map"] == {
        "units": 3, "round": 8, "round_ended_at": 5.0, "counts": {"rows": 20}, "state_bytes": 2_000,
        "task_memory": 900, "seconds": 0.25, "newest_timestamp": 0.0, "lag": 9, "slow_reading": "", "paused": True,
        "watermark": None,
    }  # fmt: skip
    assert stages["reduce"] == {
        "units": 2, "round": 0, "round_ended_at": 0, "counts": {}, "state_bytes": 0, "task_memory": 0, "seconds": 0,
        "newest_timestamp": 0, "lag": 0, "slow_reading": "",
        "paused": False, "watermark": None,
    }  # fmt: skip
