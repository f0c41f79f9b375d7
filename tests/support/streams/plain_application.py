"""What looks like a job's application, without Spark: it holds its job, beats, and has a worker in a group apart."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil

from springline.spark_jobs.streaming.job_folder import JobFolder

APPLICATION = """
import os, signal, subprocess, sys, time
from pathlib import Path
from springline.spark_jobs.streaming.job_folder import JobFolder
folder, obeys = JobFolder(Path(sys.argv[1])), sys.argv[2]
if obeys == "nothing":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
worker = subprocess.Popen(["sleep", "600"], process_group=0)
began = time.time()
def write_heartbeat(state):
    now = time.time()
    status = {"state": state, "error": "", "heartbeat_at": now, "started_at": began, "pid": os.getpid(), "stages": {}}
    folder.write_heartbeat(status)
with folder.application_lock():
    folder.discard_leftovers()
    folder.scratch.mkdir()
    write_heartbeat("running")
    print(worker.pid, flush=True)
    while obeys != "the request" or not folder.stop_file.exists():
        time.sleep(0.02)
    write_heartbeat("stopped")
worker.kill()
"""


def start_application(folder: JobFolder, obeys: str) -> tuple[subprocess.Popen[bytes], list[psutil.Process]]:
    """Start one that obeys "the request" to stop, "SIGTERM" alone, or "nothing"; its processes, the worker last."""
    process = subprocess.Popen(
        [sys.executable, "-c", APPLICATION, folder.path, obeys], start_new_session=True, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    return process, [psutil.Process(process.pid), psutil.Process(worker)]
