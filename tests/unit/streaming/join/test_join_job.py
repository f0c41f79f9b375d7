"""What can be declared of a join, and the errors of wrong declarations."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from springline.spark_jobs.streaming.errors import InvalidJobError
from springline.spark_jobs.streaming.job import topics_of_stages
from springline.spark_jobs.streaming.jobs import read_jobs
from springline.spark_jobs.streaming.join.job import JoinJob
from springline.spark_jobs.streaming.runtime.stage import place_stages
from tests.support.streams.declarations import join_sides, written

SIDES = join_sides("j", "a", "b")
LEFT = [["id", "int"], ["k", "int"], ["name", "text"]]
RIGHT = [["id", "int"], ["k", "int"], ["x", "float"]]


def declared_job(
    folder: Path, *, left: dict[str, Any] | None = None, right: dict[str, Any] | None = None, **options: Any
) -> Any:
    """The join `j` with these lines in its tables; None leaves one out."""
    lines = ["[j]", 'kind = "join"']
    own = {"on": "l.k = r.k", **options}
    lines += [f"{key} = {json.dumps(value)}" for key, value in own.items() if value is not None]
    sides = {
        "left": {"topic": "a", "fields": LEFT, **(left or {})},
        "right": {"topic": "b", "fields": RIGHT, **(right or {})},
    }
    for name, side in sides.items():
        lines += [f"[j.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in side.items() if value is not None)]
    return read_jobs(written(folder, "\n".join(lines)))["j"]


def test_a_join_is_declared_by_two_topics_and_a_predicate(tmp_path: Path) -> None:
    """All else has a default; its topics are its own."""
    job = declared_job(tmp_path)
    assert isinstance(job, JoinJob)
    assert (job.sources, job.topic, job.max_units, job.rebalance_config.units, job.rebalance_config.strategy) == (
        ("a", "b"), "a+b", 8, 4, "heavy-split-work",
    )  # fmt: skip
    assert topics_of_stages(job) == {
        "j.tuples": 2, "j.copies": 2, "j.results": 2, "j.dead-letters": 2, "j.route.rounds": 1, "j.join.rounds": 1,
        "j.route.reports": 1, "j.join.reports": 1,
    }  # fmt: skip
    assert all(stage.make_step() for stage in place_stages(job.name, job.stages()))


def test_a_topic_may_be_joined_with_itself(tmp_path: Path) -> None:
    """Declared twice in the same words, but for the alias."""
    assert declared_job(tmp_path, right={"topic": "a", "fields": LEFT}).sources == ("a",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on": None}, "the key on is missing; expected a text that is not empty: predicate over both sides"),
        ({"on": " "}, "write one condition"),
        ({"on": "l.k = r.z"}, "there is no field 'z' in r (it has id, k, x)"),
        ({"select": ["l.z"]}, "there is no field 'z' in l"),
        ({"select": "l.k"}, "select = 'l.k'; expected a list, each item a text"),
        ({"max_imbalance": 1}, "max_imbalance = 1; expected a number from 0 to below 1"),
        ({"max_imbalance": -0.1}, "max_imbalance = -0.1; expected a number from 0 to below 1"),
        (
            {"migration_cost_weights": [0.5, 0.5]},
            "migration_cost_weights = [0.5, 0.5]; expected [a number from 0 to 1, a number",
        ),
        (
            {"migration_cost_weights": [0.5, 0.5, 0.5]},
            "migration_cost_weights: expected three numbers that add up to 1",
        ),
        ({"migration_cost_weights": [-0.5, 1, 0.5]}, "migration_cost_weights[0] = -0.5; expected"),
        ({"max_units": 2}, "max_units = 2; expected at least parallelism, 4"),
        ({"tasks": 9}, "tasks = 9; expected at most max_units, 8"),
        ({"parallelism": 300}, "parallelism = 300; expected a whole number from 1 to 256"),
        ({"strategy": "best"}, "strategy: join strategy 'best': no installed package provides 'best'"),
        ({"topic": "a"}, "topic"),
        ({"left": {"topic": None}}, "left: the key topic is missing"),
        ({"left": {"fields": [["k", "whole"]]}}, "left: side 'l': k is 'whole'; write boolean, int, float, "),
        ({"left": {"fields": ["k"]}}, "left.fields[0] = 'k'; expected a list, each item [a text, "),
        ({"left": {"fields": [["k", "int"], ["k", "int"]]}}, "k declared twice"),
        ({"ttl": 0}, "ttl = 0; expected a finite number above 0"),
        ({"ttl": "1h"}, "ttl = '1h'; expected a finite number above 0"),
        ({"left": {"alias": "r"}}, "both sides of the join have the alias 'r'"),
        ({"left": {"alias": 5}}, "left.alias = 5; expected a text"),
        ({"left": {"format_options.delimiter": "||"}}, "left: '||' cannot be a delimiter"),
        ({"left": {"format": "xml"}}, "left: format 'xml': no installed package provides 'xml'"),
        ({"right": {"topic": "a"}}, "read the same topic: declare the same fields"),
        ({"right": {"topic": "a", "fields": LEFT[::-1]}}, "read the same topic: declare the same fields"),
        ({"right": {"topic": "a", "fields": LEFT, "format": "json"}}, "read the same topic: declare the same fields"),
    ],
)
def test_a_wrong_declaration_is_named(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    """With the file, the job, and what is known or wanted instead."""
    with pytest.raises(InvalidJobError, match=rf"streams\.toml, job 'j'.*{re.escape(message)}"):
        declared_job(tmp_path, **options)


def test_tuples_are_kept_for_ever_unless_seconds_are_declared(tmp_path: Path) -> None:
    """Then routers send their clock, and units and the controller know that tuples expire."""
    without_ttl, with_ttl = declared_job(tmp_path), declared_job(tmp_path, ttl=60)
    assert without_ttl.ttl is None and with_ttl.ttl == 60.0
    assert (without_ttl.rebalance_config.expires, with_ttl.rebalance_config.expires) == (False, True)
    assert all(stage.make_step() for stage in place_stages(with_ttl.name, with_ttl.stages()))
    new, old = ([stage.arguments for stage in job.stages()] for job in (with_ttl, without_ttl))
    assert new == [{**old[0], "expires": True}, {**old[1], "ttl": 60.0}]


def test_what_is_kept_for_ever_is_not_declared_by_an_infinite_number(tmp_path: Path) -> None:
    """TOML has one; leaving it out says it."""
    file = written(tmp_path, '[j]\nkind = "join"\non = "l.k = r.k"\nttl = inf\n' + SIDES)
    with pytest.raises(InvalidJobError, match="ttl = inf; expected a finite number above 0"):
        read_jobs(file)
