"""What the API answers about the jobs of `kept_streams`, without Airflow and Kafka: pages are given these answers."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from springline.airflow.api.schemas import StagePressure, StreamDetail
from springline.spark_jobs.streaming.application.health import Health, bottleneck_of
from springline.spark_jobs.streaming.application.lag_history import FILE, INTERVAL_SECONDS, LagPoint, read_history
from springline.spark_jobs.streaming.application.status import read_status
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.join.rebalance import read_controller_state, require_explanation
from springline.spark_jobs.streaming.join.routing.key_explanation import explain_key
from springline.spark_jobs.streaming.join.wire import KeyBand
from tests.support.streams.declared_streams import HOSTILE, JOBS, KINDS, SQL, explain_pairs

Answers = dict[str, tuple[int, Any]]
CAPABILITIES = {"ticks": ("queries",), "pairs": ("join",)}
UPSTREAMS = {"ticks": {"map": [], "reduce": ["map"]}, "pairs": {"route": [], "join": ["route"]}}
WORD_UPSTREAMS = {"split": [], "retry": [], "count": ["split", "retry"], "acker": ["split", "retry", "count"]}
READS = {"ticks": {"map": "ticks"}, "pairs": {"route": "left+right"}}
RESULTS = {"ticks": {"reduce": "ticks.results"}, "pairs": {"join": "pairs.results"}}
KEY_COLUMNS = [{"name": "k", "type": "int"}]


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    return json.loads(TypeAdapter(type(value)).dump_json(value))


def detail(folder: JobFolder, job: str, points: int = 60) -> dict[str, Any]:
    """How a job is."""
    now = time.time()
    history = tuple(read_history(folder.path / FILE, now, points))
    own = StreamDetail(
        **vars(read_status(job, folder, now)), dag_id=f"stream_{job}", may_change=True, history=history,
        capabilities=CAPABILITIES.get(job, ("tracking",)),
    )  # type: ignore[arg-type]  # fmt: skip
    return dict(plain(own))


def backpressure(job: str, pressed: Mapping[str, Any], state: str) -> dict[str, Any]:
    """The stages of a job."""
    return {
        "state": state, "mode": "predictive", "modes": ["off", "predictive", "stepwise", "stepwise-literal"],
        "baselines": ["stepwise-literal"], "signal_channel": None, "upstreams": UPSTREAMS.get(job, WORD_UPSTREAMS),
        "reads": READS.get(job, {"split": "lines"}), "results": RESULTS.get(job, {"count": f"{job}.results"}),
        "stages": {name: plain(StagePressure.of(stage)) for name, stage in pressed.items()},
        "bottleneck": bottleneck_of(pressed),
    }  # fmt: skip


def letter(number: int, content: str, **more: Any) -> dict[str, Any]:
    """A dead letter."""
    return {
        "record": f"0:{number}", "stage": "map", "topic": "ticks", "partition": 0, "offset": 4_810 + number,
        "reason": "row 0: the column bytes: 'many' is no integer", "failed_at": "2026-11-25T21:10:00Z",
        "content": content, "encoding": "text", "bytes": len(content.encode()), "retried_at": None, "refusal": "",
        **more,
    }  # fmt: skip


DEAD_LETTERS = [
    letter(1, "2013-01-05 10:00,x,tcp,many,0.5"),
    letter(2, "ff fe 00", encoding="hex", bytes=3),
    letter(3, HOSTILE, retried_at="2026-11-25T22:00:00Z", refusal="it was already retried"),
    letter(4, "x", stage="reduce", topic="ticks.partials", refusal="it is derived from source records"),
]


def results() -> dict[str, Any]:
    """The newest results of `ticks`."""
    rows = [
        {"query": "kinds", "window_start": f"2026-11-25T2{at // 60}:{at % 60:02}:00+00:00",
         "window_end": f"2026-11-25T2{(at + 1) // 60}:{(at + 1) % 60:02}:00+00:00", "kind": kind, "n": 100 * place + at,
         "load": 0.5}
        for at in range(90) for place, kind in enumerate(KINDS)
    ]  # fmt: skip
    return {"rows": rows}


def join(folder: JobFolder) -> dict[str, Any]:
    """The join after its last look, with a migration under way."""
    explanation = plain(require_explanation(folder))
    entries = explanation["entries"]
    moving = [
        {"piece": 7, "copying": True, "tuples": 40, "kind": "bucket", "cost": 0.125,
         "description": "bucket: left 12 buckets, about 40 tuples, from unit 0 to unit 2: 3 units instead of 2"},
        {"piece": 8, "copying": False, "tuples": 20, "kind": "bucket", "cost": 0.06,
         "description": "bucket: right 5 buckets, about 20 tuples, from unit 1 to unit 2: 3 units instead of 2"},
    ]  # fmt: skip
    return {
        **explanation,
        "state": "stopped",
        "loads": [
            {"unit": int(unit), "used": int(unit) in explanation["used"], "left": left, "right": right,
             "stored": left + right}
            for unit, (left, right) in explanation["loads"].items()
        ],
        "heavy_keys": [{**each, "key": str(each["key"])} for each in explanation["heavy_keys"] if each["is_heavy"]],
        "routing": {"epoch": explanation["epoch"], "keys": {"left": 1, "right": 1},
                    "entries": [{**each, "key": str(each["key"])} for each in entries]},
        "key_columns": KEY_COLUMNS, "migrations": moving, "moving_tuples": 90, "moved_tuples": 30,
    }  # fmt: skip


def join_key(folder: JobFolder, key: int) -> dict[str, Any]:
    """What the join does with a key."""
    state = read_controller_state(folder)
    assert state is not None
    explained = asdict(explain_key(state.table, KeyBand(0, 0), key, require_explanation(folder)))
    return {**plain(explained), "key": str(key), "values": [str(key)], "columns": KEY_COLUMNS}


def stream_answers(home: Path, scratch: Path) -> Answers:
    """The answers about all jobs, which run in `home` (`beating`)."""
    folders = {job: JobFolder(home / "streams" / job) for job in JOBS}
    explain_pairs(folders["pairs"], scratch)
    order = list(Health)
    details = {job: detail(folder, job) for job, folder in folders.items()}
    listed = sorted(details.values(), key=lambda each: order.index(each["health"]))
    answers: Answers = {"streams": (200, {"streams": listed})}
    for job, status in details.items():
        points = [asdict(LagPoint(**point)) for point in detail(folders[job], job, 360)["history"]]
        pressed = status["backpressure"].get("stages", {})
        answers |= {
            f"streams/{job}": (200, {**status, "history": []}),
            f"streams/{job}/history": (200, {"interval": INTERVAL_SECONDS, "points": points}),
            f"streams/{job}/backpressure": (200, backpressure(job, pressed, status["state"])),
            f"streams/{job}/dead-letters": (200, {"dead_letters": [], "matching": 0}),
            f"streams/{job}/tracking": (200, {**status["tracking"], "state": status["state"]})
            if status["tracking"]
            else (409, {"detail": f"{job}: it has not tracked any record yet; start it first"}),
        }
    answers |= {
        "streams/ticks/dead-letters": (200, {"dead_letters": DEAD_LETTERS, "matching": 4}),
        "streams/words/dead-letters": (200, {"dead_letters": DEAD_LETTERS[:2], "matching": 2}),
        "streams/ticks/queries": (200, {"version": 1, "queries": [{"name": "kinds", "sql": SQL, "since": 1}]}),
        "streams/ticks/results": (200, results()),
        "streams/ticks/ask": (200, {"slices": []}),
        "streams/pairs/join": (200, join(folders["pairs"])),
    }
    for key in (1, 4, 77_777):
        answers[f"streams/pairs/join/keys/{key}"] = (200, join_key(folders["pairs"], key))
    return answers
