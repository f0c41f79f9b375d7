"""Logs of servers do not grow without end, and of a large one only the end is read."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

from springline.services import log_files
from springline.services.log_files import rotate_log, tail
from springline.services.process.launch import spawn
from springline.services.server import Process, Server


def large(log: Path, size: int, end: bytes) -> Path:
    """A log of `size` bytes, which take no room on the disk, and then `end`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        file.seek(size)
        file.write(end)
    return log


def test_the_end_of_a_large_log_is_read_without_the_rest(tmp_path: Path) -> None:
    """Of a gigabyte, no more than a few blocks are ever in memory."""
    log = large(tmp_path / "a.log", 1 << 30, b"\n" + b"\n".join(b"line %d" % n for n in range(100)) + b"\n")
    tracemalloc.start()
    lines = tail(log).splitlines()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert lines == [f"--- end of {log}", *(f"line {n}" for n in range(70, 100))]
    assert most < 1 << 20


def test_the_end_of_a_small_log_is_all_of_it(tmp_path: Path) -> None:
    """One that does not exist is reported as missing; what is no text is no error."""
    log = tmp_path / "a.log"
    assert tail(log).endswith("(no such file)")
    log.write_bytes(b"one\n\xff two")
    assert tail(log).splitlines()[1:] == ["one", "\ufffd two"]


def test_of_the_log_of_an_earlier_start_the_end_is_kept(tmp_path: Path, monkeypatch) -> None:
    """A small one is kept whole."""
    monkeypatch.setattr(log_files, "RETAINED_BYTES", 10)
    log, earlier = tmp_path / "a.log", tmp_path / "a.log.1"
    log.write_text("0123456789")
    assert rotate_log(log) == log and not log.exists() and earlier.read_text() == "0123456789"
    log.write_text("abc0123456789")
    rotate_log(log)
    assert earlier.read_text() == "0123456789"
    assert [file.name for file in tmp_path.iterdir()] == ["a.log.1"]


def test_the_log_of_a_server_that_runs_can_be_emptied(tmp_path: Path) -> None:
    """What it prints after that is at the beginning of the file, with no hole before it."""
    script = "import sys; print('first', flush=True); sys.stdin = open(sys.argv[1]); input(); print('second')"
    pipe, log = tmp_path / "pipe", tmp_path / "a.log"
    os.mkfifo(pipe)
    server = Server("small", "", tmp_path, (), {}, {}, lambda: "")
    started = spawn(server, Process("main", (sys.executable, "-c", script, str(pipe))), "token", log)
    with pipe.open("w") as line:  # open once it waits for it, and has printed
        subprocess.run(["truncate", "-s", "0", log], check=True)
        line.write("\n")
    os.waitpid(started.pid, 0)
    assert log.read_bytes() == b"second\n"
