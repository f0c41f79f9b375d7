"""The router's step: which rows become tuples, and what is sent to which task."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from springline.spark_jobs.streaming.join import router as routing
from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.router import TABLE, RelationSource, Router
from springline.spark_jobs.streaming.join.routing.strategies import strategy_of
from springline.spark_jobs.streaming.join.routing.table import RoutingTable
from springline.spark_jobs.streaming.join.wire import ROWS, Action, JoinSide, RoutedBatch, first_seq
from springline.spark_jobs.streaming.runtime.message import Message, MessageBatch
from springline.spark_jobs.streaming.runtime.step import Input, Output, Round, State
from springline.spark_jobs.streaming.sources.decoder import rows_of
from springline.spark_jobs.streaming.sources.format import open_format

FIELDS = {"key": "int", "price": "float", "name": "text"}


def test_a_delimiter_at_the_end_of_lines_is_accepted():
    """As TPC's generators write them; only the columns that are wanted are read."""
    layout = RelationSource("left", Relation("l", FIELDS), "csv", {"delimiter": "|"}).layout
    batch = MessageBatch.of([Message(0, b"1|1.5|a|\n2|2|b|\n")])
    assert rows_of(open_format(layout, ["name"]), [batch]).table.to_pydict() == {"name": ["a", "b"]}


ROWS_OF_FIVE = b"1,1,a\n2,0.5,b\n,3,c\n4,4,d\n1,5,e\n"


def a_router(*, tasks: int = 4) -> Router:
    """Of equal keys, of rows with a price of 1 or more."""
    left, right = Relation("l", FIELDS), Relation("r", FIELDS)
    condition = Condition.of(left, right, "l.key = r.key AND l.price >= 1 AND r.price >= 1", ["l.price"])
    return Router(RelationSource("one", left), RelationSource("two", right), 4, tasks, condition)


def step(
    router: Router, value: bytes, *, unit: int = 0, number: int = 3, state: State | None = None, **table: Any
) -> Output:
    """One round."""
    routing_table = strategy_of(table.get("strategy", "hash")).first(4, 4).as_json()
    messages = [Message(0, value, partition=unit)] if value else []
    this = Round(1, number, 0.0, {TABLE: routing_table})
    return router(state or State(), Input("r", unit, this, messages, {unit: (0, len(messages))}))


def routed_batches(output: Output) -> list[tuple[int, JoinSide, list[int], list[int], list[int], list[int]]]:
    """All that was sent: task, side, actions, units, keys, seqs."""
    routed = []
    for task, batches in output.buffers.items():
        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            one = RoutedBatch.read(sink.getvalue())
            if one.tuples.num_rows:
                keys, seqs, units, actions = (one.tuples.column(at).to_pylist() for at in range(4))
                routed.append((task, one.side, actions, units, keys, seqs))
    return routed


def test_rows_become_tuples_with_seqs_by_round_unit_and_row():
    """What is filtered or has no key is counted, and takes no part."""
    output = step(a_router(), ROWS_OF_FIVE, unit=1)
    first = first_seq(3, 1)
    tuples = [two for *_, keys, seqs in routed_batches(output) for two in zip(keys, seqs, strict=True)]
    assert sorted(tuples) == [(1, first + 1), (1, first + 9), (4, first + 7)]
    for task, side, actions, units, *_ in routed_batches(output):
        assert side is JoinSide.RIGHT and set(actions) == {Action.BOTH} and set(units) == {task}
    counts = {"rows": 5, "dead_letters": 0, "filtered": 1, "unjoinable": 1, "tuples": 3, "messages": 3}
    assert dict(output.counts) == counts


def test_the_orders_of_an_epoch_go_to_every_task_once():
    """Also to those that get no tuples; not in the next round."""
    router = a_router()
    output = step(router, b"9,1,a\n")
    assert sorted(output.buffers) == [0, 1, 2, 3]
    heads = [json.loads(batches[0].schema.metadata[b"join"]) for batches in output.buffers.values()]
    assert [head["value"]["commands"]["epoch"] for head in heads] == [1] * 4
    next_output = step(router, b"", number=4, state=output.state)
    assert next_output.buffers == {} and next_output.gauges["epoch"] == 1
    assert all(next_output.state.runs[name] is output.state.runs[name] for name in output.state.runs)


def test_a_tuple_is_one_row_for_a_task_however_many_of_its_units_it_goes_to() -> None:
    """One that probes all four units of two tasks is stored in one of them; rows are in the order of actions."""
    output = step(a_router(tasks=2), b"".join(b"%d,1,a\n" % key for key in range(50)), strategy="jb6")
    first, seqs_by_task = first_seq(3, 0), {}
    for task, _, actions, units, _, seqs in routed_batches(output):
        assert actions == sorted(actions) and len(seqs) == len(set(seqs))
        assert all(unit % 2 == task for unit, action in zip(units, actions, strict=True) if action != Action.PROBE)
        seqs_by_task[task] = dict(zip(seqs, actions, strict=True))
    assert seqs_by_task.keys() == {0, 1}
    for seq in range(first, first + 100, 2):
        assert sum(own.get(seq, Action.PROBE) != Action.PROBE for own in seqs_by_task.values()) == 1
    assert output.counts["messages"] == sum(map(len, seqs_by_task.values())) <= 100
    assert sum(map(sum, output.gauges["sent"])) == 50


def test_heavy_keys_are_counted_over_all_rounds():
    """By side, with the number of tuples."""
    router = a_router()
    output = step(router, ROWS_OF_FIVE)
    output = step(router, ROWS_OF_FIVE, number=4, state=output.state)
    assert output.gauges["sketch"] == [
        {"total": 6, "missed": 0, "top": [[1, 4], [4, 2]]},
        {"total": 0, "missed": 0, "top": []},
    ]


def test_what_does_not_fit_into_a_round_goes_into_the_next(monkeypatch):
    """No seq is given twice, and none beyond the room of a unit."""
    monkeypatch.setattr(routing, "ROWS", 2)
    router = a_router()
    state, keys_by_round = State(), []
    for number in range(4):
        output = step(
            router, b"".join(b"%d,1,a\n" % key for key in range(5)) if not number else b"", number=number, state=state
        )
        state = output.state
        keys_by_round.append(sorted(key for *_, keys, _ in routed_batches(output) for key in keys))
    assert keys_by_round == [[0, 1], [2, 3], [4], []] and "buffered" not in state.runs


def test_big_batches_are_split_and_the_same_at_every_attempt(monkeypatch):
    """To the byte."""
    monkeypatch.setattr(routing, "BATCH_ROWS", 3)
    value = b"".join(b"%d,1,a\n" % (key % 7) for key in range(50))
    one, two = (step(a_router(), value, strategy="jb6") for _ in range(2))
    assert one.buffers.keys() == two.buffers.keys()
    assert all(
        a.equals(b, check_metadata=True)
        for u in one.buffers
        for a, b in zip(one.buffers[u], two.buffers[u], strict=True)
    )
    assert max(len(keys) for *_, keys, _ in routed_batches(one)) == 3 and ROWS == 1 << 21


def test_a_table_is_parsed_only_when_it_changes(monkeypatch):
    """It is the same for many rounds."""
    calls = []
    real = RoutingTable.from_json
    monkeypatch.setattr(RoutingTable, "from_json", staticmethod(lambda value: calls.append(1) or real(value)))
    router = a_router()
    for number in range(3):
        step(router, b"1,1,a\n", number=number)
    assert len(calls) == 1
