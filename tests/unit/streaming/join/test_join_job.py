"""What can be declared of a join, and what a wrong declaration is told."""

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


def declared(
    folder: Path, *, left: dict[str, Any] | None = None, right: dict[str, Any] | None = None, **told: Any
) -> Any:
    """The join `j` with these lines in its tables; None leaves one out."""
    lines = ["[j]", 'kind = "join"']
    own = {"on": "l.k = r.k", **told}
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
    job = declared(tmp_path)
    assert isinstance(job, JoinJob)
    assert (job.sources, job.topic, job.max_units, job.rebalance_config.units, job.rebalance_config.strategy) == (
        ("a", "b"), "a+b", 8, 4, "heavy-split-work",
    )  # fmt: skip
    assert topics_of_stages(job, 3) == {
        "j.tuples": 8, "j.copies": 8, "j.results": 8, "j.dead": 8, "j.route.rounds": 1, "j.join.rounds": 1,
    }  # fmt: skip
    assert all(stage.make_step() for stage in place_stages(job.name, job.stages(3), tmp_path))


def test_a_topic_may_be_joined_with_itself(tmp_path: Path) -> None:
    """Declared twice in the same words, but for the alias."""
    assert declared(tmp_path, right={"topic": "a", "fields": LEFT}).sources == ("a",)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"on": None}, 'it needs on = "…", a predicate over both sides'),
        ({"on": " "}, 'it needs on = "…", a predicate over both sides'),
        ({"on": "l.k = r.z"}, "there is no field 'z' in r (it has id, k, x)"),
        ({"on": "l.k = q.k"}, "no side is called 'q'; the sides are l and r"),
        ({"on": "l.k <> r.k"}, "l.k <> r.k"),
        ({"on": "l.k = 1"}, "l.k = 1"),
        ({"on": "l.name = r.x"}, "'l.name = r.x' compares float with text"),
        ({"on": "l.k = r.k AND l.name > 5"}, "'l.name > 5' compares int with text"),
        ({"on": "abs(l.name - r.k) <= 1"}, "'l.name - r.k' needs numbers, and has text"),
        ({"on": "l.k = r.k OR l.id = r.id"}, "nothing in it finds partners but trying all pairs"),
        ({"on": "l.k BETWEEN r.k + 5 AND r.k - 5"}, "no pair can ever match"),
        ({"on": "l.k = r.k AND l.id < 9223372036854775808"}, "9223372036854775808 does not fit 64 bits"),
        ({"on": "l.k ="}, "not SQL"),
        ({"select": ["l.z"]}, "there is no field 'z' in l"),
        ({"select": "l.k"}, "select must be a list of columns"),
        ({"max_imbalance": 1}, "max_imbalance must be a number from 0 to below 1"),
        ({"max_imbalance": -0.1}, "max_imbalance must be a number from 0 to below 1"),
        ({"max_imbalance": "low"}, "max_imbalance must be a number from 0 to below 1"),
        ({"migration_cost_weights": [0.5, 0.5]}, "migration_cost_weights must be three numbers that add up to 1"),
        ({"migration_cost_weights": [0.5, 0.5, 0.5]}, "migration_cost_weights must be three numbers that add up to 1"),
        ({"migration_cost_weights": [-0.5, 1, 0.5]}, "migration_cost_weights must be three numbers that add up to 1"),
        ({"max_units": 2}, "max_units = 2, and there are 4 units; max_units is how many there can be"),
        ({"parallelism": 300}, "parallelism = 300; 256 at most"),
        ({"strategy": "best"}, "strategy: join strategy 'best': no installed package adds 'best'"),
        ({"topic": "a"}, "topic"),
        ({"left": {"topic": None}}, "[j.left]: it needs a topic"),
        ({"left": {"fields": [["k", "whole"]]}}, "k is 'whole'; write int, float or text"),
        ({"left": {"fields": ["k"]}}, "fields must be a list such as"),
        ({"left": {"fields": [["k", "int"], ["k", "int"]]}}, "k declared twice"),
        ({"ttl": 0}, "ttl must be a number of seconds above 0"),
        ({"ttl": "1h"}, "ttl must be a number of seconds above 0"),
        ({"ttl": True}, "ttl must be a number of seconds above 0"),
        ({"left": {"alias": "r"}}, "both sides of the join are called 'r'"),
        ({"left": {"alias": 5}}, "5 cannot be the alias of a side"),
        ({"left": {"delimiter": "||"}}, "'||' cannot separate fields"),
        ({"left": {"format": "xml"}}, "format = 'xml'; write csv or"),
        ({"right": {"topic": "a"}}, "the same topic, and declare it in different ways"),
        ({"right": {"topic": "a", "fields": LEFT[::-1]}}, "the same topic, and declare it in different ways"),
        (
            {"right": {"topic": "a", "fields": LEFT, "format": "json"}},
            "the same topic, and declare it in different ways",
        ),
    ],
)
def test_a_wrong_declaration_is_named(tmp_path: Path, wrong: dict[str, Any], told: str) -> None:
    """With the file, the job, and what is known or wanted instead."""
    with pytest.raises(InvalidJobError, match=rf"streams\.toml, job 'j'.*{re.escape(told)}"):
        declared(tmp_path, **wrong)


def test_tuples_are_kept_for_ever_unless_seconds_are_declared(tmp_path: Path) -> None:
    """Then routers tell their clock, and units and the controller know that tuples expire."""
    for_ever, kept = declared(tmp_path), declared(tmp_path, ttl=60)
    assert for_ever.ttl is None and kept.ttl == 60.0
    assert (for_ever.rebalance_config.expires, kept.rebalance_config.expires) == (False, True)
    assert all(stage.make_step() for stage in place_stages(kept.name, kept.stages(3), tmp_path))
    new, old = ([stage.arguments for stage in job.stages(3)] for job in (kept, for_ever))
    assert new == [{**old[0], "clocked": True}, {**old[1], "keep": 60.0}]


def test_what_is_kept_for_ever_is_not_declared_by_an_infinite_number(tmp_path: Path) -> None:
    """TOML has one; leaving it out says it."""
    file = written(tmp_path, '[j]\nkind = "join"\non = "l.k = r.k"\nttl = inf\n' + SIDES)
    with pytest.raises(InvalidJobError, match="ttl = inf; leave it out"):
        read_jobs(file)
