"""The slices that a reducer's state retains, as the answer to a question to its state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.runtime.step import State
from springline.spark_jobs.streaming.windows.state.reducer_state import floor_of_cube
from springline.spark_jobs.streaming.windows.state.slices import slices_between


@dataclass(frozen=True)
class SliceQuestion:
    """A question for the slices [begin, end) of a cube, with these columns; None: from the first, or to the last."""

    cube: str
    columns: tuple[str, ...]
    begin: int | None = None
    end: int | None = None

    def encode(self) -> bytes:
        """Encode the question as the content of a message."""
        return _QUESTIONS.encode(self)


_QUESTIONS: Codec[SliceQuestion] = Codec(
    SliceQuestion, 1, "a question for slices", "install the same version of Springline everywhere"
)


def answer(state: State, content: bytes) -> list[pa.RecordBatch]:
    """Answer an encoded question from the state of a reducer's unit; see `queryable_state.StateQuery`."""
    return list(slices_of(state, _QUESTIONS.decode(content, "a question")))


def slices_of(state: State, question: SliceQuestion) -> Iterator[pa.RecordBatch]:
    """Yield the partials of a unit in the slices of a question, without slices that the state no longer retains."""
    floor = floor_of_cube(state, question.cube)
    begin = max((bound for bound in (floor, question.begin) if bound is not None), default=None)
    for run in state.runs.get(question.cube, ()):
        batch = slices_between(run, begin, question.end)
        if batch.num_rows and set(question.columns) <= set(batch.schema.names):
            yield batch.select(list(question.columns))
