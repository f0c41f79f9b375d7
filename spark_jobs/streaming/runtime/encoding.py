"""From what a step made to messages: buffers for the next stage, results and dead letters for everybody."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

import pyarrow as pa

from springline.spark_jobs.streaming.runtime.message_log import Letter, Order
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.stamps import Stamp
from springline.spark_jobs.streaming.runtime.step import Output

RESULT_ROWS = 2_000  # in one message
BATCH_BYTES = 4 << 20  # of a batch in one message: what is more is cut, since brokers take no message of any size


def letters_of(stage: Stage, unit: int, order: Order, output: Output, *, begins: bool = False) -> Iterator[Letter]:
    """The buffers for each unit downstream and each acker, numbered from 0, in Arrow's stream form.

    With `begins`, this is the first round of a unit that came later than the others.

    One of more than `BATCH_BYTES` comes as several with the same schema, of some of its rows each.
    """
    sender = _from(order, stage.sender(unit))
    for topic, buffers in ((stage.downstream, output.buffers), (stage.acks, output.acks)):
        for to in sorted(buffers):
            for sequence, batch in enumerate(_cut(buffers[to])):
                yield Letter(topic, to, arrow_bytes(batch), Stamp(*sender, sequence, begins=begins).header())


def tells_of(stage: Stage, unit: int, order: Order, output: Output) -> Iterator[Letter]:
    """What a stage tells within its job, in Arrow's stream form, cut as the buffers are."""
    for sequence, batch in enumerate(_cut(output.tells)):
        yield Letter(stage.told, unit, arrow_bytes(batch), Stamp(*_from(order, unit), sequence).header())


def results_of(stage: Stage, unit: int, order: Order, output: Output) -> Iterator[Letter]:
    """The results as lines of JSON, up to `RESULT_ROWS` in a message, and fewer where they are long.

    The header `query` tells whose they are, `incarnation` how often the job has gone back in time, from 1 on.
    """
    sequence = 0
    for batch in output.results:
        query = (batch.schema.metadata or {}).get(b"query", b"")
        parts = (batch.slice(at, RESULT_ROWS) for at in range(0, batch.num_rows, RESULT_ROWS))
        for lines in (lines for part in parts for lines in _lines(part)):
            headers = {
                **Stamp(*_from(order, unit), sequence).header(),
                "query": query,
                "incarnation": str(order[0]).encode(),
            }
            yield Letter(stage.results, unit, lines, headers)
            sequence += 1


def dead_letters(stage: Stage, unit: int, order: Order, output: Output) -> Iterator[Letter]:
    """What could not be used, as it came; the headers `topic`, `partition`, `offset` and `reason` tell where and why.

    Several stages of a job may write to the same topic: each has a number of its own there.
    """
    for sequence, dead in enumerate(output.dead):
        headers = Stamp(*_from(order, stage.sender(unit)), sequence).header()
        headers |= {
            "topic": (dead.topic or stage.topic).encode(),
            "partition": str(unit if dead.partition is None else dead.partition).encode(),
            "offset": str(dead.offset).encode(),
            # What a reason cites may hold half a character.
            "reason": dead.reason.encode(errors="backslashreplace"),
        }
        yield Letter(stage.dead, unit, bytes(dead.value), headers)


def arrow_bytes(batch: pa.RecordBatch) -> bytes:
    """A batch as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _cut(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In halves, until each part is small enough, or a row alone."""
    for batch in batches:
        if batch.nbytes <= BATCH_BYTES or batch.num_rows < 2:
            yield batch
        else:
            half = batch.num_rows // 2
            yield from _cut([batch.slice(0, half), batch.slice(half)])


def _from(order: Order, unit: int) -> tuple[int, int, int]:
    return (order[0], unit, order[1])


def _lines(batch: pa.RecordBatch) -> Iterator[bytes]:
    """As lines of JSON; in halves, until those of each part are few enough bytes, or it is a row alone."""
    import polars as pl  # which starts a thread: workers are forked before

    if batch.nbytes <= BATCH_BYTES or batch.num_rows < 2:
        sink = io.BytesIO()
        found = pl.from_arrow(batch)
        assert isinstance(found, pl.DataFrame)
        found.write_ndjson(sink)
        if sink.tell() <= 2 * BATCH_BYTES or batch.num_rows < 2:
            yield sink.getvalue()
            return
    half = batch.num_rows // 2
    yield from _lines(batch.slice(0, half))
    yield from _lines(batch.slice(half))
