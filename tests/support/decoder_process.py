"""A process that decodes messages as windows and joins do: one that dies of a message is a failed test, no more."""

from __future__ import annotations

import json
import pickle
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.source_reader import Source, read
from springline.spark_jobs.streaming.runtime.encoding import dead_letters, results_of
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.step import Message, Output, State
from springline.spark_jobs.streaming.sources.decoder import chunks_of
from tests.support.windows_job import FIELDS, Job, registry, stream

QUERIES = {
    "q": "SELECT sip, kind, count(*) AS n, sum(bytes) AS b, max(load) AS l FROM S GROUP BY sip, kind WINDOWING 60 s"
}
_STAGE = Stage("map", "step", "source", job="job", state="/state", results="results", dead="dead")
_SIZE = struct.Struct("<I")


@dataclass
class Decoded:
    """What became of some messages: the rows that a join reads, the letters as (offset, reason, bytes).

    `originals` are the bytes of each row that was read, `results` the lines of the results over the rows.
    """

    rows: list[dict[str, Any]]
    dead: list[tuple[int, str, bytes]]
    originals: list[tuple[int, bytes]] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)


def decode(form: str, values: Sequence[bytes], *, windows: bool = False) -> Decoded:
    """By a join; and by `windows`, which must agree, up to their results."""
    messages = [Message(offset, value) for offset, value in enumerate(values)]
    names = sorted(each.name for each in FIELDS)  # as windows ask for them: the first that does not fit is told
    source = Source("source", Relation("l", {each.name: each.type for each in FIELDS}), form)
    joined = read(source, messages, names)
    joined.table.validate(full=True)
    rows = joined.table.to_pylist()
    found = Decoded(rows, [(letter.offset, letter.reason, letter.value) for letter in joined.dead])
    for chunk in chunks_of(source.layout, names, messages, []):
        for row in chunk.kept:
            (letter,) = chunk.source.letters(chunk.kept[chunk.kept == row], lambda row, place: "")
            found.originals.append((letter.offset, letter.value))
    if not windows:
        return found
    job = Job(registry(QUERIES, stream(form=form)))
    job.round(values)
    job.round(clock=1e6)  # all are idle for so long that every window closes
    assert [letter for letter in job.dead if letter in joined.dead] == joined.dead  # the others have odd times
    for letter in dead_letters(_STAGE, 0, (1, 1), Output(State(), dead=job.dead)):
        letter.headers["reason"].decode()
    for told in results_of(_STAGE, 0, (1, 1), Output(State(), results=job.results)):
        found.results += [json.loads(line) for line in told.value.decode().split("\n") if line]
    return found


class DecoderProcess:
    """Decodes in a process of its own, which begins anew after it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def decode(self, form: str, values: Sequence[bytes], *, windows: bool = False) -> Decoded:
        """What `decode` gives; an assertion fails where it raises or dies."""
        if self._process is None:
            command = [sys.executable, "-m", "tests.support.decoder_process"]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None and self._process.stdout is not None
        asked = pickle.dumps((form, list(values), windows))
        self._process.stdin.write(_SIZE.pack(len(asked)) + asked)
        self._process.stdin.flush()
        head = self._process.stdout.read(_SIZE.size)
        if len(head) < _SIZE.size:
            code, self._process = self._process.wait(), None
            raise AssertionError(f"the decoder died with exit status {code} of {values!r}")
        answer = pickle.loads(self._process.stdout.read(_SIZE.unpack(head)[0]))
        assert isinstance(answer, Decoded), answer
        return answer

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.communicate()


def _serve() -> None:
    while len(head := sys.stdin.buffer.read(_SIZE.size)) == _SIZE.size:
        form, values, windows = pickle.loads(sys.stdin.buffer.read(_SIZE.unpack(head)[0]))
        try:
            answer: Any = decode(form, values, windows=windows)
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        told = pickle.dumps(answer)
        sys.stdout.buffer.write(_SIZE.pack(len(told)) + told)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    from tests.support import decoder_process  # what is pickled is of a module that both know

    decoder_process._serve()
