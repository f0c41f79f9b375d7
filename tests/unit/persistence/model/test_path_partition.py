"""A path is split into its template and its partition, by what the operation declares or by what it looks like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springline.persistence.model.path_partition import partition_of_run, split_path
from springline.spark_jobs.path_templates import fill_template

PART = st.text(st.characters(categories=["L", "Nd"], include_characters="-_ =."), min_size=1, max_size=12).filter(
    lambda text: text.strip() == text and text[0] not in "._"
)


@pytest.mark.parametrize(
    ("path", "declared", "template", "partition"),
    [
        ("etl/2013-01-05/clean", "etl/{ds}/clean", "etl/{ds}/clean", "2013-01-05"),
        ("sales/DE/2013-01-05", "sales/{country}/{ds}", "sales/{country}/{ds}", "DE/2013-01-05"),
        ("a/7/b/7", "a/{n}/b/{n}", "a/{n}/b/{n}", "7"),
        ("etl/2013-01-05/clean", "etl/{ds}/other", "etl/{date}/clean", "2013-01-05"),  # declared since otherwise
        ("etl/2013-01-05T10-30/clean", "", "etl/{date}/clean", "2013-01-05T10-30"),
        ("etl/20130105", "", "etl/{date}", "20130105"),
        ("etl/day-2013-01-05.parquet", "", "etl/day-{date}.parquet", "2013-01-05"),
        ("sales/country=DE/ds=2013-01-05", "", "sales/country={country}/ds={ds}", "DE/2013-01-05"),
        ("sales/17/x", "", "sales/{number}/x", "17"),
        ("a/2013-01-05/b/2013-01-05", "", "a/{date}/b/{date}", "2013-01-05"),
        ("models/v2/2013-13-41", "", "models/v2/2013-13-41", ""),  # no date
        ("models/latest", "", "models/latest", ""),
    ],
)
def test_a_path_is_split(path: str, declared: str, template: str, partition: str) -> None:
    """By the declared template if it fits."""
    assert split_path(path, declared) == (template, partition)


@given(st.lists(PART, min_size=1, max_size=4), st.lists(st.sampled_from(["ds", "hour", "x"]), max_size=3), st.data())
def test_what_a_template_makes_is_split_by_it(parts: list[str], fields: list[str], data: st.DataObject) -> None:
    """Whatever the values are, except those that an earlier field could take a part of."""
    names = list(dict.fromkeys(fields))
    template = "/".join([*parts, *(f"{{{name}}}" for name in names)])
    values = {name: data.draw(PART) for name in names}
    assert split_path(fill_template(template, values), template) == (template, "/".join(values.values()))


@given(st.text(max_size=60), st.text(max_size=30))
def test_any_text_is_split(path: str, template: str) -> None:
    """None is an error."""
    split_path(path, template)


@pytest.mark.parametrize(
    ("run_id", "partition"),
    [
        ("scheduled__2013-01-05T00:00:00+00:00", "2013-01-05"),
        ("backfill__2013-01-05T06:00:00+00:00#2", "2013-01-05T06:00:00"),
        ("manual__2026-11-24T10:11:12.345678+00:00_x1", "2026-11-24T10:11:12"),
        ("day 1", ""),
        ("", ""),
    ],
)
def test_the_time_of_a_dag_run_is_in_its_id(run_id: str, partition: str) -> None:
    """A day, if it is midnight."""
    assert partition_of_run(run_id) == partition
