"""Tests of the worker that connects before it imports, against a socket that speaks as Spark does."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from springline.spark_jobs.streaming.spark import session

ROOT = Path(__file__).resolve().parents[4]
RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"
SECRET = "a secret"


@pytest.fixture
def spark() -> Iterator[socket.socket]:
    """What Spark listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        yield server


def begin(port: int, *path: Path) -> subprocess.Popen[str]:
    """The worker as Spark starts it; its modules are found in `path` first."""
    environment = {
        **os.environ,
        "SPRINGLINE_WORKER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([*map(str, path), str(ROOT)]),
        "PYTHON_WORKER_FACTORY_PORT": str(port),
        "PYTHON_WORKER_FACTORY_SECRET": SECRET,
    }
    return subprocess.Popen([session.WORKER_PYTHON, "-m", RUNNER], env=environment, stderr=subprocess.PIPE, text=True)


def accept_worker(server: socket.socket, answer: bytes) -> IO[bytes]:
    """A connection, once its secret is read and answered."""
    connection, _ = server.accept()
    connection.settimeout(60)
    file = connection.makefile("rwb")
    (length,) = struct.unpack("!i", file.read(4))
    assert file.read(length).decode() == SECRET
    file.write(struct.pack("!i", len(answer)) + answer)
    file.flush()
    return file


def test_it_is_connected_before_pyspark_is_there(spark: socket.socket, tmp_path: Path) -> None:
    """Which may take as long as it likes; the runner gets that connection."""
    (tmp_path / "pyspark" / "sql" / "streaming").mkdir(parents=True)
    for package in (tmp_path / "pyspark", tmp_path / "pyspark" / "sql", tmp_path / "pyspark" / "sql" / "streaming"):
        (package / "__init__.py").touch()
    waiting = f"import pathlib, time\nwhile not pathlib.Path({str(tmp_path / 'go')!r}).exists(): time.sleep(0.05)\n"
    (tmp_path / "pyspark" / "worker_util.py").write_text(waiting)
    (tmp_path / "pyspark" / "sql" / "streaming" / f"{RUNNER.rpartition('.')[2]}.py").write_text(
        "from pyspark.worker_util import get_sock_file_to_executor\n"
        "with get_sock_file_to_executor(timeout=None) as file:\n"
        "    file.write(file.read(5)[::-1])\n"
    )
    process = begin(spark.getsockname()[1], tmp_path)
    try:
        with accept_worker(spark, b"ok") as file:
            assert struct.unpack("!i", file.read(4)) == (process.pid,)
            (tmp_path / "go").touch()
            file.write(b"hello")
            file.flush()
            assert file.read(5) == b"olleh"
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def test_where_its_secret_is_refused_it_ends(spark: socket.socket) -> None:
    """And says so."""
    process = begin(spark.getsockname()[1])
    with accept_worker(spark, b"no"):
        _, stderr = process.communicate(timeout=60)
    assert process.returncode and "Spark does not take its own secret: b'no'" in stderr


def test_other_workers_are_started_as_ever(tmp_path: Path) -> None:
    """What forks those that run tasks, for one."""
    environment = {**os.environ, "SPRINGLINE_WORKER_PYTHON": sys.executable}
    run = subprocess.run(
        [session.WORKER_PYTHON, "-m", "platform"], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith("Linux")
