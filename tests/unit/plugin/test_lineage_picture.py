"""The lineage as a picture: what is drawn and folded, where it stands, and what is not told of other DAGs."""

from __future__ import annotations

from dataclasses import replace

from springline.airflow.lineage.access_filter import (
    drop_hidden_nodes,
    mentioned_refs,
    redact_hidden,
    remove_names,
    replace_texts,
    texts_of,
)
from springline.airflow.lineage.graph import Edge, Graph, Node, NodeKind, RecoveryKind, draw, with_operations
from springline.airflow.lineage.grouping import MOST_UNFOLDED, Fold, fold_nodes, suitable_fold
from springline.airflow.lineage.layers import lay_out
from springline.persistence.explain import explain
from springline.persistence.model.dataset import CacheState, Dataset, Operation, Origin, Phase, Ref, TransferMethod
from springline.persistence.platform import Platform
from springline.testing.lines import make_dataset as make
from tests.support.datasets.lineages import cached, evicted, lineage_of, persisted, ref


def draw_nodes(*datasets: Dataset) -> dict[str, Node]:
    """The nodes of a picture, by key."""
    return by_key(draw(lineage_of(*datasets)))


def by_key(graph: Graph) -> dict[str, Node]:
    """The nodes, by key."""
    return {node.key: node for node in graph.nodes}


def next_generation(dataset: Dataset, **fields: object) -> Dataset:
    """The next generation of the path."""
    return replace(dataset, ref=Ref(dataset.ref.path, dataset.ref.generation + 1), **fields)  # type: ignore[arg-type]


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
    return sum(
        a[0] == c[0] and b[0] == d[0] and (a[1] - c[1]) * (b[1] - d[1]) < 0
        for i, (a, b) in enumerate(lines)
        for c, d in lines[:i]
    )


# ---- what is drawn


def test_a_dataset_is_drawn_with_its_state_and_how_it_was_persisted() -> None:
    """Data and operation transfers are told apart, checkpoints and pins marked."""
    nodes = draw_nodes(
        persisted("a", by=None, method=TransferMethod.DATA),
        persisted("b", "a", method=TransferMethod.OPERATION, checkpoint=True, pinned=True),
        cached("c", "b"),
    )
    assert [(n.states, n.methods) for n in nodes.values()] == [
        ({"persisted": 1}, {"data": 1}), ({"persisted": 1}, {"operation": 1}), ({"cached": 1}, {}),
    ]  # fmt: skip
    assert (nodes["b"].checkpoints, nodes["b"].pinned, nodes["c"].checkpoints, nodes["c"].pinned) == (1, 1, 0, 0)


def test_what_is_needed_leads_back_to_what_is_persisted() -> None:
    """Who follows the needs of a dataset has the chain; persisted ones need nothing."""
    nodes = draw_nodes(persisted("a", by=None), cached("b", "a"), evicted("c", "b"), cached("d", "c", "a"))
    assert {key: node.needs for key, node in nodes.items()} == {"a": (), "b": (), "c": ("b",), "d": ("c",)}
    assert [next(iter(node.recovery_kinds)) for node in nodes.values()] == [
        RecoveryKind.PERSISTED,
        RecoveryKind.RECOMPUTABLE,
        RecoveryKind.RECOMPUTABLE,
        RecoveryKind.RECOMPUTABLE,
    ]


def test_what_only_a_declaration_brings_back_is_drawn_apart() -> None:
    """It has a chain as well; what comes from it leans on the same declaration."""
    fresh = Operation("fresh", "v1", idempotent=True)
    lineage = lineage_of(
        persisted("a", by=None), cached("b", "a", by="fresh"), cached("c", "b"), cached("d", "a"), fresh=fresh
    )
    nodes = {node.key: node for node in draw(lineage).nodes}
    assert {key: next(iter(node.recovery_kinds)) for key, node in nodes.items()} == {
        "a": RecoveryKind.PERSISTED, "b": RecoveryKind.UNPROVEN, "c": RecoveryKind.UNPROVEN,
        "d": RecoveryKind.RECOMPUTABLE,
    }  # fmt: skip
    assert nodes["c"].needs == ("b",)


def test_what_nothing_brings_back_says_why_and_needs_nothing() -> None:
    """The first cause, wherever upstream."""
    nodes = draw_nodes(cached("a", by="dice"), cached("b", "a"), cached("c", "a", cache=CacheState.LOST))
    assert [next(iter(node.recovery_kinds)) for node in nodes.values()] == [RecoveryKind.IRRECOVERABLE] * 3
    assert (
        nodes["b"].irrecoverable_reasons
        == nodes["a"].irrecoverable_reasons
        == ("dice (version v1), which made a@1, is not idempotent",)
    )
    assert nodes["b"].needs == () and nodes["c"].states == {"irrecoverable": 1}


def test_older_generations_are_folded_into_the_newest() -> None:
    """What was made of an older one is stale, and so is the edge."""
    first = persisted("a", by=None, superseded=True)
    graph = draw(lineage_of(first, next_generation(first, superseded=False), cached("b", "a"), cached("c", "b")))
    nodes = by_key(graph)
    assert (nodes["a"].generation, nodes["a"].older) == (2, (1,))
    assert graph.edges == (Edge("a", "b", stale=True), Edge("b", "c", stale=False))
    assert (nodes["b"].stale, nodes["c"].stale) == (1, 0)


def test_a_generation_that_is_being_written_does_not_hide_the_one_that_readers_see() -> None:
    """It is drawn when there is no other; what is retired or abandoned is not drawn at all."""
    visible = persisted("a", by=None)
    nodes = draw_nodes(
        visible, next_generation(visible, phase=Phase.OPEN), cached("b", phase=Phase.OPEN, cache=CacheState.WRITING),
        cached("c", phase=Phase.RETIRED), cached("d", "c", phase=Phase.ABANDONED),
    )  # fmt: skip
    assert {key: node.generation for key, node in nodes.items()} == {"a": 1, "b": 1}
    assert nodes["b"].states == {"writing": 1}


def test_a_path_that_was_made_from_itself_has_no_edge_to_itself() -> None:
    """A table that grows reads the generation before."""
    first = persisted("a", by=None, superseded=True)
    second = next_generation(first, superseded=False, sources=(first.ref,))
    assert draw(lineage_of(first, second)).edges == ()


def test_an_operation_stands_between_a_dataset_and_its_sources() -> None:
    """What no operation made has none."""
    graph = with_operations(draw(lineage_of(persisted("a", by=None), persisted("b", by=None), cached("c", "a", "b"))))
    assert {(e.source, e.target) for e in graph.edges} == {
        ("a", "operation:c"), ("b", "operation:c"), ("operation:c", "c"),
    }  # fmt: skip
    assert by_key(graph)["operation:c"].kind is NodeKind.OPERATION and by_key(graph)["operation:c"].label == "op"


# ---- what is folded


def days(count: int) -> Graph:
    """A workflow of three operations over so many days."""
    datasets = []
    for day in range(count):
        run = Origin("etl", f"day {day}", "t")
        datasets += [
            persisted(f"{day}/load", by="dice", origin=run, method=TransferMethod.DATA),
            cached(f"{day}/clean", f"{day}/load", by="op", origin=run),
            cached(f"{day}/count", f"{day}/clean", by="good", origin=run, bytes=day),
        ]
    return draw(lineage_of(*datasets))


def test_few_datasets_are_not_folded_and_many_are() -> None:
    """By what leaves fewer nodes: two thousand datasets of three operations become three."""
    assert suitable_fold(days(MOST_UNFOLDED // 3)) is Fold.NONE
    assert suitable_fold(days(667)) is Fold.OPERATION
    assert len(fold_nodes(days(667), Fold.OPERATION).nodes) == 3
    few = Graph(tuple(replace(n, operation=n.key, run_id="one") for n in days(30).nodes), ())
    assert suitable_fold(few) is Fold.RUN


def test_a_fold_counts_what_is_in_it() -> None:
    """States, ways of transfer, bytes; what its members need becomes what it needs."""
    nodes = by_key(fold_nodes(days(5), Fold.OPERATION))
    assert list(nodes) == ["operation:dice", "operation:good", "operation:op"]
    load, count = nodes["operation:dice"], nodes["operation:good"]
    assert (load.kind, load.label, load.datasets) == (NodeKind.FOLD, "dice", 5)
    assert (load.states, load.methods, load.recovery_kinds) == ({"persisted": 5}, {"data": 5}, {"persisted": 5})
    assert (count.states, count.bytes, count.run_id, count.dag_id) == ({"cached": 5}, 10, "", "etl")


def test_edges_between_folds_are_one_and_edges_inside_of_one_are_gone() -> None:
    """An edge is stale if any in it is."""
    graph = days(3)
    graph = replace(graph, edges=(*graph.edges[:-1], replace(graph.edges[-1], stale=True)))
    assert {(e.source, e.target, e.stale) for e in fold_nodes(graph, Fold.OPERATION).edges} == {
        ("operation:dice", "operation:op", False), ("operation:op", "operation:good", True),
    }  # fmt: skip
    by_run = fold_nodes(graph, Fold.RUN)
    assert by_run.edges == () and [n.label for n in by_run.nodes] == ["day 0", "day 1", "day 2"]


# ---- where it stands


def test_sources_stand_left_of_what_was_made_of_them() -> None:
    """One layer beyond the last of them."""
    graph = lay_out(
        draw(lineage_of(cached("a"), cached("b", "a"), cached("c", "a", "b"), cached("d"), cached("e", "d", "c")))
    )
    assert [set(layer) for layer in grid(graph)] == [{"a", "d"}, {"b"}, {"c"}, {"e"}]


def test_lines_do_not_cross_where_they_need_not() -> None:
    """However the names stand in the alphabet."""
    pairs = {"z": "a", "y": "b", "x": "c", "w": "d"}
    tangled = draw(lineage_of(*(cached(s) for s in pairs), *(cached(t, s) for s, t in pairs.items())))
    straight = lay_out(tangled)
    assert crossings(straight) == 0
    assert crossings(lay_out(days(20))) == 0


def test_nodes_that_lead_back_to_each_other_share_a_layer() -> None:
    """Folds may: today's clean reads yesterday's count."""
    edges = (Edge("a", "b"), Edge("b", "c"), Edge("c", "b"), Edge("c", "d"))
    graph = lay_out(Graph(tuple(Node(key, NodeKind.FOLD, key) for key in "abcd"), edges))
    assert [set(layer) for layer in grid(graph)] == [{"a"}, {"b", "c"}, {"d"}]


def test_nothing_is_laid_out_as_nothing() -> None:
    """An empty catalog has an empty picture."""
    assert lay_out(draw(lineage_of())) == Graph((), ())


# ---- what is not told


def is_readable(dataset: Dataset) -> bool:
    """Whether the DAG that made it may be read."""
    return dataset.origin.dag_id == "mine"


def test_what_one_may_not_read_has_no_name_and_changes_nothing_else() -> None:
    """Neither in sources nor in reasons; what can be made again stays so."""
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
    assert [(n.key, n.needs) for n in drop_hidden_nodes(draw(redacted)).nodes] == [("b", ()), ("c", ()), ("d", ())]
    assert drop_hidden_nodes(draw(redacted)).edges == ()


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
        "/u/pay/secret list/.@1-7; load, which made pay/secret list@1, is not idempotent; pay/secret list@2"
    )
    platform.catalog.amend(Ref("open", 1), event="persist_abandoned", reason=message, error=message)
    explanation = explain(platform, "open")
    assert texts_of(explanation)[0] == texts_of(explanation)[-1] == message
    refs = {each.ref for each in platform.catalog.find_existing(mentioned_refs(texts_of(explanation)))}
    assert refs == {Ref("pay/secret list", 1), Ref("list", 1), Ref("open", 1)}
    hidden = replace_texts(explanation, lambda text: remove_names(text, refs - {Ref("open", 1)}))
    assert (
        hidden.dataset.error
        == hidden.moments[-1].reason
        == (
            "open@1 could not be recomputed: file:/c/hidden/@1/part-0: gone; "
            "/u/hidden/.@1-7; load, which made hidden@1, is not idempotent; pay/secret list@2"
        )
    )
    assert "secret list@1" not in dict(hidden.paragraphs())["Queue"]
