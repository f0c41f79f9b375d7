"""The lineage by template: strips of partitions, what is missing in them, and groups of templates."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springline.airflow.lineage.grouping import MAX_UNGROUPED, Grouping, collapse, suitable_grouping
from springline.airflow.lineage.live_index import LiveIndex
from springline.airflow.lineage.overview import build_overview
from springline.airflow.lineage.strips import LETTERS, WORST_FIRST, merge_strips
from springline.airflow.lineage.template_graph import (
    SHOWN_PARTITIONS,
    LineageFilter,
    TemplateEdge,
    TemplateGraph,
    TemplateNode,
    build_template_graph,
)
from springline.persistence.model.dataset import DatasetStatus, Origin
from springline.persistence.platform import Platform
from springline.testing.lines import make_dataset as make


def node(key: str, dag_id: str = "etl", operation: str = "op", strip: str = "pp") -> TemplateNode:
    """A template with so many partitions as its strip has letters."""
    return TemplateNode(
        key=key, label=key, is_group=False, group="", templates=1, operation=operation, dag_id=dag_id, task_id="",
        strip=strip, undated="", states={"persisted": len(strip)}, newest=None, exposed_bytes=1,
    )  # fmt: skip


def graph(nodes: Iterable[TemplateNode], *edges: tuple[str, str]) -> TemplateGraph:
    """A graph of two partitions."""
    return TemplateGraph(["1", "2"], 0, 0, "", [], 0, list(nodes), [TemplateEdge(*edge) for edge in edges])


def built(platform: Platform, **filters: str) -> TemplateGraph:
    """The graph of all that a platform has."""
    index = LiveIndex(platform.catalog)
    index.refresh()
    return build_template_graph(index, LineageFilter(**filters), lambda dag_id: True)


# ---- strips


def test_every_state_has_a_letter_and_a_rank() -> None:
    """Those that a live dataset can have."""
    dead = {DatasetStatus.RETIRED, DatasetStatus.ABANDONED}
    assert set(LETTERS) == set(DatasetStatus) - dead
    assert set(LETTERS.values()) | {"m", "."} == set(WORST_FIRST)


@given(st.lists(st.text(WORST_FIRST, min_size=3, max_size=3), max_size=5))
def test_merged_strips_have_the_worst_of_each_column(strips: list[str]) -> None:
    """Nothing if there are none."""
    merged = merge_strips(strips, 3)
    assert len(merged) == 3
    for i, letter in enumerate(merged):
        column = {strip[i] for strip in strips} or {"."}
        assert letter in column and all(WORST_FIRST.index(letter) <= WORST_FIRST.index(each) for each in column)


def test_the_newest_partitions_are_shown(platform: Platform) -> None:
    """The others are counted; a range shows what it names."""
    for i in range(SHOWN_PARTITIONS + 5):
        make(platform, f"a/{i + 100}/b")
    shown = built(platform)
    assert (len(shown.partitions), shown.earlier, shown.later) == (SHOWN_PARTITIONS, 5, 0)
    assert shown.partitions[-1] == str(SHOWN_PARTITIONS + 104)
    ranged = built(platform, first="101", last="103")
    assert (ranged.partitions, ranged.earlier, ranged.later) == (["101", "102", "103"], 1, SHOWN_PARTITIONS + 1)


def test_a_last_day_includes_its_hours(platform: Platform) -> None:
    """As a person means it."""
    for hour in ("2013-01-05T22", "2013-01-05T23", "2013-01-06T00"):
        make(platform, f"a/{hour}/b")
    assert built(platform, last="2013-01-05").partitions == ["2013-01-05T22", "2013-01-05T23"]


def test_a_gap_is_missing_only_where_others_of_the_dag_have_it(platform: Platform) -> None:
    """Not before the first partition of a template, nor after its last; other kinds of partitions do not count."""
    origin = Origin("etl", "run", "task")
    for day in ("2013-01-01", "2013-01-02", "2013-01-03", "2013-01-04"):
        make(platform, f"a/{day}/every", origin=origin)
    for day in ("2013-01-02", "2013-01-04"):
        make(platform, f"a/{day}/some", origin=origin)
        make(platform, f"b/{day}/other", origin=Origin("other", "run", "task"))
    make(platform, "a/2013-01-03T10/hourly", origin=origin)
    strips = {each.key: each.strip for each in built(platform).nodes}
    assert strips == {
        "a/{date}/every": "ccc.c", "a/{date}/some": ".cm.c", "b/{date}/other": ".c..c", "a/{date}/hourly": "...c.",
    }  # fmt: skip


def test_a_path_without_a_partition_has_that_of_its_run_or_none(platform: Platform) -> None:
    """Each run is a column; what no run made has a state of its own."""
    for day in ("01", "02"):
        make(platform, "models/latest", origin=Origin("etl", f"scheduled__2013-01-{day}T00:00:00+00:00", "t"))
    make(platform, "models/other")
    nodes = {each.key: each for each in built(platform).nodes}
    assert nodes["models/latest"].strip == "cc" and nodes["models/latest"].undated == ""
    assert nodes["models/other"].strip == ".." and nodes["models/other"].undated == "c"


# ---- groups


@pytest.mark.parametrize(
    ("templates", "dags", "operations", "grouping"),
    [
        (MAX_UNGROUPED, MAX_UNGROUPED, 1, Grouping.NONE),
        (400, 1, 20, Grouping.STAGE),
        (400, 100, 1, Grouping.DAG),
        (400, 20, 20, Grouping.DAG),
    ],
)
def test_many_templates_are_grouped_as_finely_as_one_can_read(
    templates: int, dags: int, operations: int, grouping: Grouping
) -> None:
    """Not by what gives the fewest nodes; as many as one can distinguish are not grouped."""
    nodes = [node(f"{i}", f"dag{i % dags}", f"op{i // dags % operations}") for i in range(templates)]
    assert suitable_grouping(nodes) is grouping


def test_a_group_sums_up_its_templates() -> None:
    """Edges inside it are dropped, those across are kept once."""
    nodes = [node("a", strip="pl"), node("b", strip="cp"), node("c", "other")]
    full_graph = graph(nodes, ("a", "b"), ("a", "c"), ("b", "c"))
    collapsed = collapse(full_graph, Grouping.DAG)
    group, alone = collapsed.nodes
    assert (group.key, group.strip, group.states, group.templates, group.exposed_bytes) == (
        "dag:etl", "cl", {"persisted": 4}, 2, 2,
    )  # fmt: skip
    assert (alone.key, alone.group) == ("c", "") and collapsed.edges == [TemplateEdge("dag:etl", "c")]
    expanded = collapse(full_graph, Grouping.DAG, ["dag:etl"])
    assert {each.key: each.group for each in expanded.nodes} == {"a": "dag:etl", "b": "dag:etl", "c": ""}
    assert set(expanded.edges) == set(full_graph.edges)
    assert collapse(full_graph, Grouping.DAG, ["*"]).edges == expanded.edges
    assert collapse(full_graph, Grouping.NONE) is full_graph


def test_the_overview_counts_what_is_collapsed(platform: Platform) -> None:
    """Templates and datasets are those of the filter, however they are drawn."""
    for day in ("2013-01-01", "2013-01-02"):
        for name in ("a", "b"):
            make(platform, f"etl/{day}/{name}", origin=Origin("etl", "run", name))
    index = LiveIndex(platform.catalog)
    index.refresh()
    overview = build_overview(index, LineageFilter(), lambda dag_id: True, Grouping.DAG)
    assert (overview.templates, overview.datasets, len(overview.nodes)) == (2, 4, 1)
