"""Everything at once on the cluster profile, with a random fault a minute; what comes out is compared with no fault."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.report import Goal, Report
from benchmarks.soaking import streams
from benchmarks.soaking.diary import Diary
from benchmarks.soaking.faults import Struck, draw
from benchmarks.soaking.watching import Sample, Watch, growth, zombies
from benchmarks.soaking.workflow import Workflow
from benchmarks.soaking.world import World, world

_SEED = 20130105
_EVERY = 60.0  # seconds between two faults
_MOST = 12.0  # GiB that all may hold
_GROWTH = 0.1  # by which what levels off may still grow
_LOOK_SECONDS = 1.0


def run(size: str) -> Report:
    """An hour (quick: six minutes) under three streams and the workflow; a seed, the same faults in the same order."""
    seconds = 3600.0 if size == "full" else 360.0
    diary, drawn = Diary(), random.Random(_SEED)
    with world(streams.DECLARED, diary) as place:
        workflow = Workflow(place)
        streams.begin(place)
        place.keep_up()
        watch = Watch(place)
        diary.note("all is at work; the faults begin")
        feeding = streams.Feeding(place.streams.cluster, seconds + 600)
        rows = [_faulted(place, drawn, number) for number in range(int(seconds / _EVERY))]
        diary.note("no more faults")
        feeding.end()
        streams.await_through(place)
        workflow.end()
        left = workflow.await_persisted()
        wrong = streams.wrong(place)
        dead = zombies(place)
    goals = [
        *(Goal(f"results of the stream {job} that are missing, doubled or wrong", many, "0", many == 0)
          for job, many in wrong.items()),
        Goal(f"datasets of {workflow.runs} backfills that differ", workflow.wrong, "0", workflow.wrong == 0),
        Goal("datasets that are not persisted in the end", left, "0", left == 0),
        Goal("faults that did not heal", sum(row["healed_s"] is None for row in rows), "0",
             all(row["healed_s"] is not None for row in rows)),
        Goal("DAG runs started again by hand", diary.count("by hand"), "0", not diary.count("by hand")),
        *_level(watch.samples),
        Goal("zombies in the end", dead, "0", not dead),
    ]  # fmt: skip
    return Report("soak", size, rows, goals, [*_REMARKS, _course(watch.samples)])


_REMARKS = (
    f"A fault every {_EVERY:.0f} s, seed {_SEED}: PostgreSQL, Kafka, HDFS, Alluxio, Spark Connect, Airflow, three days "
    "of the workflow as backfills without end, streams of windows, of tracked words, of a join, each under its DAG.",
    "healed: all servers serve, and each stream has read on. A server that died is started again after 3 s, as an init "
    "would; all else heals by itself.",
    "Memory and open files: the mean of the last quarter against that of the second.",
)


def _faulted(place: World, drawn: random.Random, number: int) -> dict[str, Any]:
    """One fault, and how long it took to heal; the next one is due when its time has come, or when it has healed."""
    due = time.monotonic() + _EVERY
    before = {job: streams.rows_of(place, job) for job in streams.JOBS}
    begun, at = time.monotonic(), place.diary.now
    struck = draw(drawn)(place, drawn)
    place.diary.note(f"fault {number + 1}: {struck.what}")
    healed = _await_healed(place, struck, before, begun)
    words = "not within five minutes" if healed is None else f"after {healed:.0f} s"
    place.diary.note(f"fault {number + 1} healed {words}")
    time.sleep(max(0.0, due - time.monotonic()))
    return {"at_s": round(at), "fault": struck.what, "healed_s": None if healed is None else round(healed)}


def _await_healed(place: World, struck: Struck, before: dict[str, int], begun: float) -> float | None:
    """Wait until all is at work again: seconds since the fault, without those that it was to last."""
    if struck.seconds:
        threading.Event().wait(struck.seconds)
        struck.undo()
    while time.monotonic() - begun < 300:
        missing = place.missing() or _behind(place, before)
        if not missing:
            return max(time.monotonic() - begun - struck.seconds, 0.0)
        time.sleep(_LOOK_SECONDS)
    place.diary.note(f"still: {missing}")
    return None


def _behind(place: World, before: dict[str, int]) -> str:
    """The first stream that does not work, or has read nothing since."""
    for job, rows in before.items():
        seen = streams.seen(place, job)
        if not seen.works:
            return f"stream {job} is {seen.state} {seen.error}"
        if streams.rows_of(place, job) <= rows:
            return f"stream {job} has read nothing"
    return ""


def _level(samples: Sequence[Sample]) -> list[Goal]:
    most = max(each.memory + each.files_in_memory for each in samples) / 2**30
    memory = growth([each.memory for each in samples])
    files = growth([each.open_files for each in samples])
    return [
        Goal("memory at most, with files in memory, GiB", round(most, 1), f"at most {_MOST:g}", most <= _MOST),
        Goal("memory grows by, %", round(memory * 100, 1), f"at most {_GROWTH:.0%}", memory <= _GROWTH),
        Goal("open files grow by, %", round(files * 100, 1), f"at most {_GROWTH:.0%}", files <= _GROWTH),
    ]


def _course(samples: Sequence[Sample]) -> str:
    """Ten moments of the course, in one line."""
    chosen = [asdict(each) for each in samples[:: max(len(samples) // 10, 1)]]
    told = (f"{each['at'] / 60:.0f} min {each['memory'] / 1e9:.1f} GB, {each['open_files']:,}" for each in chosen)
    return f"Memory of processes, and open files: {'; '.join(told)}."
