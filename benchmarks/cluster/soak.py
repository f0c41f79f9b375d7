"""Everything at once on the cluster profile, with a random fault a minute; what comes out is compared with no fault."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.cluster.soaking import streams
from benchmarks.cluster.soaking.cluster import SoakCluster, running_cluster
from benchmarks.cluster.soaking.diary import Diary
from benchmarks.cluster.soaking.faults import Struck, draw
from benchmarks.cluster.soaking.resource_samples import ResourceMonitor, Sample, growers, growth, zombies
from benchmarks.cluster.soaking.workflow import Workflow
from benchmarks.report import Goal, Report, Row

_SEED = 20130105
_EVERY = 60.0  # seconds between two faults
_MOST = 12.0  # GiB that all may hold
_GROWTH = 0.1  # by which what levels off may still grow
_PATIENCE = 300.0  # seconds for the last faults to heal
_POLL_SECONDS = 3.0


def run(size: str) -> Report:
    """An hour (quick: three minutes) under three streams and the workflow; a seed, the same faults in order."""
    seconds = 3600.0 if size == "full" else 180.0
    diary, drawn = Diary(), random.Random(_SEED)
    with running_cluster(streams.DECLARED, diary) as soak_cluster:
        workflow = Workflow(soak_cluster)
        streams.begin(soak_cluster)
        soak_cluster.keep_up()
        monitor = ResourceMonitor(soak_cluster)
        diary.note("all is at work; the faults begin")
        feeding = streams.Feeding(soak_cluster.streams.cluster, seconds + 600)
        faults = _harm(soak_cluster, drawn, int(seconds / _EVERY))
        diary.note("no more faults")
        feeding.end()
        streams.await_completion(soak_cluster)
        workflow.end()
        left = workflow.await_persisted()
        wrong = streams.wrong(soak_cluster)
        dead = zombies(soak_cluster)
    goals = [
        *(Goal(f"results of the stream {job} that are missing, doubled or wrong", many, "0", many == 0)
          for job, many in wrong.items()),
        Goal(f"datasets of {workflow.runs} backfills that differ", workflow.wrong, "0", workflow.wrong == 0),
        Goal("datasets that are not persisted in the end", left, "0", left == 0),
        Goal("faults that did not heal", sum(each.healed is None for each in faults), "0",
             all(each.healed is not None for each in faults)),
        Goal("DAG runs started again by hand", diary.count("by hand"), "0", not diary.count("by hand")),
        *_level(monitor.samples),
        Goal("zombies in the end", dead, "0", not dead),
    ]  # fmt: skip
    rows: list[Row] = [
        {"at_s": round(each.at), "fault": each.struck.what, "healed_s": each.healed and round(each.healed)}
        for each in faults
    ]
    return Report("soak", size, rows, goals, [*_REMARKS, _course(monitor.samples)])


_REMARKS = (
    f"A fault every {_EVERY:.0f} s, seed {_SEED}: PostgreSQL, Kafka, HDFS, Alluxio, Spark Connect, Airflow, three days "
    "of the workflow as backfills without end, streams of windows, of tracked words, of a join, each under its DAG.",
    "healed: all servers serve, and each stream has read on; faults do not wait for it. A server that died is started "
    "again after 3 s, as an init would; all else heals by itself.",
    "Memory and open files: the mean of the last quarter against that of the second.",
)


@dataclass
class _Fault:
    """One that was struck: since when, what the streams had read by then, and after how many seconds all was well."""

    at: float  # of the diary
    struck: Struck
    before: dict[str, int]
    started_at: float = field(default_factory=time.monotonic)
    healed: float | None = None

    @property
    def over(self) -> bool:
        """Whether it has lasted as long as it was to."""
        return time.monotonic() >= self.started_at + self.struck.seconds


def _harm(soak_cluster: SoakCluster, drawn: random.Random, many: int) -> list[_Fault]:
    """A fault a minute, whether or not the one before has healed; then wait for what has not."""
    started_at, faults = time.monotonic(), list[_Fault]()
    while True:
        if len(faults) < many and time.monotonic() >= started_at + len(faults) * _EVERY:
            faults.append(_strike(soak_cluster, drawn, len(faults) + 1))
        open_ = [each for each in faults if each.healed is None and each.over]
        missing = soak_cluster.missing() or _stalled_stream(soak_cluster, faults[-1].before)
        if not missing:
            for each in open_:
                each.healed = time.monotonic() - each.started_at - each.struck.seconds
                soak_cluster.diary.note(f"fault {faults.index(each) + 1} has healed, {each.healed:.0f} s after it")
        if len(faults) == many and all(each.healed is not None for each in faults):
            return faults
        if time.monotonic() > faults[-1].started_at + _PATIENCE:
            soak_cluster.diary.note(f"after {_PATIENCE:.0f} s still: {missing}")
            return faults
        time.sleep(_POLL_SECONDS)


def _strike(soak_cluster: SoakCluster, drawn: random.Random, number: int) -> _Fault:
    before = {job: streams.rows_of(soak_cluster, job) for job in streams.JOBS}
    at = soak_cluster.diary.now
    struck = draw(drawn)(soak_cluster, drawn)
    soak_cluster.diary.note(f"fault {number}: {struck.what}")
    if struck.seconds:
        threading.Timer(struck.seconds, struck.undo).start()
    return _Fault(at, struck, before)


def _stalled_stream(soak_cluster: SoakCluster, before: dict[str, int]) -> str:
    """The first stream that does not work, or has read nothing since."""
    for job, rows in before.items():
        status = streams.status_of(soak_cluster, job)
        if not status.is_ready:
            return f"stream {job} is {status.state} {status.error}"
        if streams.rows_of(soak_cluster, job) <= rows:
            return f"stream {job} has read nothing"
    return ""


def _level(samples: Sequence[Sample]) -> list[Goal]:
    most = max(each.memory_bytes + each.files_in_memory for each in samples) / 2**30
    memory = growth([each.memory_bytes for each in samples])
    files = growth([each.open_files for each in samples])
    return [
        Goal("memory at most, with files in memory, GiB", round(most, 1), f"at most {_MOST:g}", most <= _MOST),
        Goal("memory grows by, %", _percent(memory), f"at most {_GROWTH:.0%}", memory <= _GROWTH),
        Goal("open files grow by, %", _percent(files), f"at most {_GROWTH:.0%}", files <= _GROWTH),
    ]


def _percent(part: float) -> float:
    """With one digit, and no zero that is negative."""
    return round(part * 100, 1) + 0.0


def _course(samples: Sequence[Sample]) -> str:
    """Ten moments of the course, in one line."""
    selected_samples = samples[:: max(len(samples) // 10, 1)]
    moments = (
        f"{each.at / 60:.0f} min {each.memory_bytes / 1e9:.1f} GB, {each.open_files:,}" for each in selected_samples
    )
    return f"Memory of processes, and open files: {'; '.join(moments)}. What grew most: {growers(samples)}."
