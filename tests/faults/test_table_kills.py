"""A persister that is killed again and again leaves each dataset in its table once, and readers see no half of one."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from springline.persistence.model.dataset import Strategy
from springline.persistence.platform import Platform
from springline.testing.platform import platform_in
from tests.support.datasets.tables import (
    FORMATS,
    catalog_variables,
    environment,
    numbers,
    read_by_others,
    uri_of,
    write_parquet,
)

_DAYS, _ROWS, _KILLS = 24, 50, 12


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    with (
        environment(catalog_variables(tmp_path)),
        platform_in(tmp_path, cache_uri=f"file://{tmp_path}/cache") as opened,
    ):
        yield opened


class Reader(threading.Thread):
    """Another engine that reads a table all the time, and notes what it sees."""

    def __init__(self, uri: str) -> None:
        super().__init__(daemon=True)
        self.uri = uri
        self.stopping = threading.Event()
        self.readings: list[Counter[str]] = []
        self.errors: list[str] = []

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                rows = read_by_others(self.uri)
            except Exception as error:
                self.errors.append(repr(error))
                continue
            assert set(rows.values()) <= {1}
            self.readings.append(Counter(day for _, day in rows))


@pytest.mark.parametrize("table_format", FORMATS)
def test_readers_count_the_same_rows_while_the_persister_is_killed(
    platform: Platform, tmp_path: Path, table_format: str
) -> None:
    uri = uri_of(table_format, tmp_path)
    for day in range(_DAYS):
        write_parquet(platform, f"etl/d{day}/clean", numbers(*range(_ROWS)), strategy=Strategy.ASYNC_STORE)
    assert not read_by_others(uri)  # which creates the catalog's own tables
    reader = Reader(uri)
    reader.start()
    command = [
        sys.executable, "-m", "tests.support.datasets.table_worker", str(platform.settings.home),
        str(tmp_path / "cache"), json.dumps({"etl/{ds}/clean": uri}),
    ]  # fmt: skip
    variables = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    chance = random.Random(42)

    kills = 0
    while True:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables) as worker:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
            if kills == _KILLS:
                assert worker.stdout.readline() == "finished\n"
                break
            time.sleep(chance.uniform(0.0, 0.25))
            worker.send_signal(signal.SIGKILL)
            kills += 1
    reader.stopping.set()
    reader.join()

    expected = {(value, f"d{day}"): 1 for day in range(_DAYS) for value in range(_ROWS)}
    assert read_by_others(uri) == expected
    assert not reader.errors
    assert all(set(reading.values()) <= {_ROWS} for reading in reader.readings)
    sizes = [len(reading) for reading in reader.readings]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) > 3  # it read while the table grew
