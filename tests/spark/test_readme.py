"""The README shows what its commands print, on the workflow that it describes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest

from docs.console import examples_in, outputs_match, outputs_of
from springline.persistence.platform import open_platform
from springline.persistence.settings import Settings
from springline.spark_jobs.landing import Landing, land
from springline.spark_jobs.materialize import materialize
from springline.spark_jobs.runner import SparkRunner
from tests.support.servers.spark_server import SparkServer

README = Path(__file__).parents[2] / "README.md"
DAY = "2013-01-05"


@pytest.fixture
def environment(tmp_path: Path, make_runner: Callable[..., SparkRunner], spark_server: SparkServer) -> dict[str, str]:
    """What leads to a platform on which the workflow was run for the README's day, and persisted."""
    home, cache = tmp_path / "home", f"file://{tmp_path}/cache"
    land([date.fromisoformat(DAY)], Landing(str(home / "landing")))
    runner = make_runner(home=home, landing_uri=str(home / "landing"))
    with closing(open_platform(Settings(home=home, cache_uri=cache), runner=runner)) as platform:
        for operation in runner.registry.topological_order():
            if operation.name.startswith("etl."):
                materialize(platform, operation.name, {"ds": DAY})
        platform.persister.drain()
    return {
        "SPRINGLINE_HOME": str(home),
        "SPRINGLINE_CACHE_URI": cache,
        "SPRINGLINE_SPARK_REMOTE": spark_server.remote,
    }


def test_the_commands_of_the_readme_print_what_it_shows(tmp_path, environment):
    """Every command that needs no Airflow, the operation of one's own among them."""
    text = README.read_text(encoding="utf-8")
    printed = outputs_of(text, tmp_path, environment)
    examples = examples_in(text)
    assert len(printed) == len(examples)
    for example, output in zip(examples, printed, strict=True):
        assert outputs_match(example.output, output), f"$ {example.command}\n{output}"
