"""The lineage as a picture: what is drawn, where it stands, and what is hidden of other DAGs."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations

from springline.airflow.lineage.access_filter import (
    mentioned_refs,
    redact_hidden,
    remove_names,
    replace_texts,
    texts_of,
)
from springline.airflow.lineage.graph import Edge, Graph, Node, draw
from springline.airflow.lineage.layers import lay_out
from springline.persistence.explain import explain
from springline.persistence.model.dataset import Dataset, DatasetStatus, Origin, Ref
from springline.persistence.platform import Platform
from springline.testing.lines import make_dataset as make
from tests.support.datasets.lineages import cached, lineage_of, persisted, ref


def drawn(*datasets: Dataset) -> Graph:
    """A picture of these, each as far from the first as it comes after it."""
    steps = {dataset.ref: i for i, dataset in enumerate(datasets)}
    return draw(steps, datasets, {dataset.ref: DatasetStatus.CACHED for dataset in datasets})


def grid(graph: Graph) -> list[list[str]]:
    """The keys as they stand: by layer, then by place."""
    layers = [[""] * len(graph.nodes) for _ in graph.nodes]
    for node in graph.nodes:
        assert layers[node.layer][node.place] == "", "two nodes in one place"
        layers[node.layer][node.place] = node.key
    return [[key for key in layer if key] for layer in layers if any(layer)]


def crossings(graph: Graph) -> int:
    """How many pairs of edges between the same two layers cross."""
    at = {node.key: (node.layer, node.place) for node in graph.nodes}
    lines = [(at[edge.source], at[edge.target]) for edge in graph.edges]
    pairs = ((a, b, c, d) for (a, b), (c, d) in combinations(lines, 2) if a[0] == c[0] and b[0] == d[0])
    return sum((a[1] - c[1]) * (b[1] - d[1]) < 0 for a, b, c, d in pairs)


# ---- what is drawn


def test_a_generation_is_drawn_with_its_state_and_what_made_it() -> None:
    """Every generation has a box of its own, named as everywhere else."""
    cleaned = cached("b", "a", origin=Origin("etl", "day 1", "clean"))
    first, second = drawn(persisted("a", by=None), cleaned).nodes
    assert (first.key, first.operation, first.step) == ("a@1", "", 0)
    assert second == Node(
        "b@1", "b", 1, step=1, status="cached", bytes=1000, operation="op", dag_id="etl", run_id="day 1",
        task_id="clean",
    )  # fmt: skip


def test_an_edge_begins_at_the_generation_that_was_read() -> None:
    """It is stale if a newer one has superseded that; what is not drawn has no edge, an older generation has."""
    old = persisted("a", by=None, superseded=True)
    new = replace(old, ref=Ref("a", 2), superseded=False)
    second_generation = replace(
        cached("b", "a", "elsewhere"), ref=Ref("b", 2), sources=(new.ref, new.ref, ref("elsewhere"))
    )
    assert set(drawn(old, new, cached("b", "a"), second_generation).edges) == {
        Edge("a@1", "b@1", stale=True),
        Edge("a@2", "b@2"),
    }
    assert drawn(old, replace(new, sources=(old.ref,))).edges == (Edge("a@1", "a@2", stale=True),)


# ---- where it stands


def test_sources_stand_left_of_what_was_made_of_them() -> None:
    """One layer beyond the last of them; an empty catalog has an empty picture."""
    assert lay_out(drawn()) == Graph((), ())
    graph = lay_out(drawn(cached("a"), cached("b", "a"), cached("c", "a", "b"), cached("d"), cached("e", "d", "c")))
    assert [set(layer) for layer in grid(graph)] == [{"a@1", "d@1"}, {"b@1"}, {"c@1"}, {"e@1"}]


def test_lines_do_not_cross_where_they_need_not() -> None:
    """However the names stand in the alphabet."""
    pairs = {"z": "a", "y": "b", "x": "c", "w": "d"}
    tangled = drawn(*(cached(s) for s in pairs), *(cached(t, s) for s, t in pairs.items()))
    assert crossings(lay_out(tangled)) == 0
    days = [(cached(f"{i}/a"), cached(f"{i}/b", f"{i}/a"), cached(f"{i}/c", f"{i}/b")) for i in range(20)]
    assert crossings(lay_out(drawn(*chain.from_iterable(days)))) == 0


def test_nodes_that_lead_back_to_each_other_share_a_layer() -> None:
    """Groups may: today's clean reads yesterday's count."""
    edges = (Edge("a", "b"), Edge("b", "c"), Edge("c", "b"), Edge("c", "d"))
    graph = lay_out(Graph(tuple(Node(key, key, 1) for key in "abcd"), edges))
    assert [set(layer) for layer in grid(graph)] == [{"a"}, {"b", "c"}, {"d"}]


# ---- what is hidden


def is_readable(dataset: Dataset) -> bool:
    """Whether the DAG that made it may be read."""
    return dataset.origin.dag_id == "mine"


def test_what_one_may_not_read_has_no_name_and_changes_nothing_else() -> None:
    """Neither in sources nor in reasons; what can be recomputed stays so."""
    own_fields, other_fields = {"origin": Origin("mine")}, {"origin": Origin("theirs")}
    true = lineage_of(
        cached("secret", by="dice", **other_fields), cached("b", "secret", **own_fields),
        persisted("kept", by=None, **other_fields), cached("c", "kept", "lost in time", **own_fields),
        cached("d", "kept", **own_fields),
    )  # fmt: skip
    redacted = redact_hidden(true, is_readable)
    assert {r.path for r in redacted.datasets if not r.path.startswith("hidden:")} == {"b", "c", "d"}
    assert not any(name in repr(redacted) for name in ("secret", "kept", "lost in time"))
    for name in "bcd":
        assert redacted.is_recomputable(ref(name)) == true.is_recomputable(ref(name))
    assert redacted.recompute_obstacles(ref("b")) == ("dice (version v1), which made hidden:3@1, is not idempotent",)


def test_who_may_read_everything_sees_the_lineage_as_it_is() -> None:
    """Nothing is copied."""
    true = lineage_of(cached("a"), cached("b", "a"))
    assert redact_hidden(true, lambda dataset: True) is true


def test_what_was_noted_in_free_words_does_not_name_what_may_not_be_read_either(platform: Platform) -> None:
    """Errors and reasons name sources and places of copies; whoever may read those sees the words as they are."""
    for path in ("pay/secret list", "list", "open"):
        make(platform, path, "load")
    message = (
        "open@1 could not be recomputed: file:/c/pay/secret list/@1/part-0: gone; "
        "/u/pay/secret list/@1-7_x; load, which made pay/secret list@1, is not idempotent; pay/secret list@2"
    )
    platform.catalog.amend(Ref("open", 1), event="persist_abandoned", reason=message, error=message)
    explanation = explain(platform, "open")
    assert texts_of(explanation)[0] == texts_of(explanation)[-1] == message
    refs = {each.ref for each in platform.catalog.find_existing(mentioned_refs(texts_of(explanation)))}
    assert refs == {Ref("pay/secret list", 1), Ref("list", 1), Ref("open", 1)}
    hidden = replace_texts(explanation, lambda text: remove_names(text, refs - {Ref("open", 1)}))
    expected = (
        "open@1 could not be recomputed: file:/c/hidden/@1/part-0: gone; "
        "/u/hidden/@1-7_x; load, which made hidden@1, is not idempotent; pay/secret list@2"
    )
    assert hidden.dataset.error == hidden.moments[-1].reason == expected
    assert "secret list@1" not in dict(hidden.paragraphs())["Queue"]
