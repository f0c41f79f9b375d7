"""Every mode of back-pressure on the same simulated topology, while the capacity of one stage falls, swings and stops.

    topic (20 MB/s) -> spring -> parse -+-> count (its capacity changes)
                                        +-> keep  (the sibling branch)

`measures` says what is measured; the stages are simulated by `simulator`, the other modes are in `peers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.backpressure.peers import PEERS
from benchmarks.backpressure.simulator import GRID, Simulation, Station, Trace
from benchmarks.report import Goal, Report, Row
from springline.spark_jobs.streaming.backpressure.admission import (
    DEFAULT_MODE,
    Admission,
    forward_upstreams,
    make_admission,
)
from springline.spark_jobs.streaming.backpressure.predictive import PredictiveAdmission, Tuning

Floats = npt.NDArray[np.float64]

MODES = (DEFAULT_MODE, "stepwise", "stepwise-literal", "off")
OFFERED = 20e6
WIDER = (64e6, 256e6)  # bytes of a wider buffer before the slow stage
DROP_AT = 50e6  # bytes of a queue, of `drop-and-resend`
SPRING, PARSE, COUNT, KEEP = STAGES = ("spring", "parse", "count", "keep")
SENDS: Mapping[str, Mapping[str, float]] = {SPRING: {PARSE: 1.0}, PARSE: {COUNT: 1.0, KEEP: 0.5}}
ORIGINALS = {SPRING: 40e6}
CAPACITIES = {SPRING: 80e6, PARSE: 60e6, KEEP: 40e6}
SETTLE_SECONDS = 3.0
_BAND = 0.1  # of what is right, within which a rate has settled
_TURN = 0.1 * OFFERED  # bytes a second that a rate has to come back for a reversal


@dataclass(frozen=True)
class Scenario:
    """How the capacity of the slow stage changes; `plateaus` are the times in which it stays, and changed before."""

    name: str
    seconds: float
    capacity: Callable[[Floats], Floats]
    plateaus: Sequence[tuple[float, float]] = ()

    def points(self) -> Floats:
        """The capacity of the slow stage, `GRID` apart."""
        at: Floats = np.arange(round(self.seconds / GRID), dtype=np.float64) * GRID
        return self.capacity(at)


def _step(at: Floats) -> Floats:
    return np.where((at >= 20) & (at < 100), 10e6, 25e6)


def _oscillating(at: Floats) -> Floats:
    return 17.5e6 + 7.5e6 * np.cos(2 * np.pi * at / 20)


def _stop(at: Floats) -> Floats:
    return np.where((at >= 20) & (at < 30), 0.0, 25e6)


def _ramp(at: Floats) -> Floats:
    return np.interp(at, [20, 80, 140], [25e6, 10e6, 25e6])


def _level(at: Floats) -> Floats:
    return np.full(len(at), 25e6)


SCENARIOS = (
    Scenario("level", 60, _level, ((0, 60),)),
    Scenario("step", 160, _step, ((20, 100), (100, 160))),
    Scenario("oscillating", 140, _oscillating),
    Scenario("stop", 65, _stop, ((30, 65),)),
    Scenario("ramp", 180, _ramp),
)
QUICK = ("step", "stop")


def run(size: str) -> Report:
    """Every mode through every scenario (quick: two of them), then the default with wider buffers."""
    scenarios = [each for each in SCENARIOS if size == "full" or each.name in QUICK]
    modes = [*MODES, *PEERS]
    rows: list[Row] = []
    traces: dict[tuple[str, str], Trace] = {}
    for scenario in scenarios:
        for mode in modes:
            traces[scenario.name, mode] = trace = simulate(scenario, mode)
            rows.append({"scenario": scenario.name, "mode": mode, **measures(scenario, trace)})
        for buffer in WIDER if scenario.name == "step" else ():
            trace = simulate(scenario, DEFAULT_MODE, buffer=buffer)
            name = f"{DEFAULT_MODE}, {buffer / 1e6:g} MB more"
            rows.append({"scenario": scenario.name, "mode": name, **measures(scenario, trace)})
    goals = [*goals_of_default(rows), *goals_of_stepwise(rows)]
    return Report("backpressure_simulation", size, rows, goals, REMARKS)


REMARKS = (
    "waiting: bytes sent to a stage and not yet admitted to a round, the worst stage; queue: sent and not applied.",
    "latency: from admission by the first stage to the end of the round of the slow stage that applies it, by bytes.",
    "lost: of what the slowest stage could have applied until the backlog was gone; sibling: of what it would get.",
    "variation: of bytes admitted in a second, by the first stage, on plateaus, from 3 s after they began.",
    "reversals: turns of that rate by 10 % of what is offered; own: those that the capacity itself makes necessary.",
    "settle: seconds until what is admitted, a mean of 3 s, stays within 10 % of what is right; empty: no plateau.",
)


def simulate(scenario: Scenario, mode: str, *, buffer: float = 0.0, seed: int = 1) -> Trace:
    """Run a scenario under a mode; `buffer` bytes are wanted to stand before the slow stage."""
    peer = PEERS.get(mode)

    def make(stage: str) -> Admission:
        if peer is not None:
            return peer(stage)
        if mode != DEFAULT_MODE:
            return make_admission(mode, stage)
        return PredictiveAdmission(stage, tuning=Tuning(buffer=buffer if stage == COUNT else 0.0))

    upstreams: Mapping[str, Sequence[str]] = forward_upstreams(
        STAGES, {name: tuple(sends) for name, sends in SENDS.items()}
    )
    if mode == "source-throttle":
        upstreams = {stage: (SPRING,) for stage in STAGES if stage != SPRING}
    points = scenario.points()
    stations = [
        Station(
            name,
            points if name == COUNT else np.full(len(points), CAPACITIES[name]),
            SENDS.get(name, {}),
            ORIGINALS.get(name, 60e6),
        )
        for name in STAGES
    ]
    drop_at = DROP_AT if mode == "drop-and-resend" else float("inf")
    return Simulation(stations, upstreams, make, OFFERED, scenario.seconds, seed=seed, drop_at=drop_at).run()


def ideal(scenario: Scenario) -> Floats:
    """What the slow stage would have applied at points `GRID` apart, had all waited for it and it never for them."""
    at = np.arange(len(scenario.points()) + 1) * GRID
    possible_bytes = np.concatenate([[0.0], np.cumsum(scenario.points()) * GRID])
    applied_bytes: Floats = possible_bytes + np.minimum.accumulate(OFFERED * at - possible_bytes)
    return applied_bytes


def measures(scenario: Scenario, trace: Trace) -> Row:
    """The measures of a run; megabytes, milliseconds, per cent."""
    waiting = {name: np.array(trace.waiting[name]) for name in STAGES[1:]}
    worst = max(waiting, key=lambda name: float(waiting[name].max()))
    per_second = _per_second(trace.admitted[SPRING], scenario.seconds)
    right = np.diff(ideal(scenario)[:: round(1 / GRID)])
    latencies = _weighted(trace.latencies[COUNT], (50, 99))
    queue = np.percentile(np.array(trace.queue[COUNT]), [50, 99])
    plateaus = [(start, to) for start, to in scenario.plateaus]
    return {
        "waiting_p50_mb": _mb(np.percentile(waiting[worst], 50)),
        "waiting_p99_mb": _mb(np.percentile(waiting[worst], 99)),
        "waiting_max_mb": _mb(waiting[worst].max()),
        "worst_stage": worst,
        "queue_p50_mb": _mb(queue[0]),
        "queue_p99_mb": _mb(queue[1]),
        "latency_p50_ms": round(latencies[0] * 1000),
        "latency_p99_ms": round(latencies[1] * 1000),
        "lost_percent": round(100 * _lost(scenario, trace), 2),
        "sibling_percent": round(100 * _sibling(scenario, trace), 1),
        "variation": _most(_variation(per_second[int(a + SETTLE_SECONDS) : int(b)]) for a, b in plateaus),
        "reversals_a_minute": round(reversals(per_second[1:], _TURN) * 60 / scenario.seconds, 2),
        "own_reversals_a_minute": round(reversals(right[1:], _TURN) * 60 / scenario.seconds, 2),
        "settle_s": _most(settled(per_second, right, max(a, 1), b) for a, b in plateaus),
        "resent_mb": _mb(trace.resent),
    }


def goals_of_default(rows: Sequence[Row]) -> Iterator[Goal]:
    """Whether the recommended mode meets what was set before, in each scenario."""
    for row in rows:
        if row["mode"] != DEFAULT_MODE:
            continue
        where = row["scenario"]
        is_stop = where == "stop"
        yield _at_most(f"bytes that wait, {where}, MB", row["waiting_max_mb"], 6.5 if is_stop else 5.0)
        yield _at_most(f"latency p99, {where}, ms", row["latency_p99_ms"], 400)
        yield _at_most(f"throughput lost, {where}, %", row["lost_percent"], 7.0 if is_stop else 3.0)
        turns = round(row["reversals_a_minute"] - row["own_reversals_a_minute"], 2)
        yield _at_most(f"reversals a minute beyond the capacity's own, {where}", turns, 2.0)
        if row["variation"] is not None:
            yield _at_most(f"coefficient of variation, {where}", row["variation"], 0.05)
            yield _at_most(f"settled after, {where}, s", row["settle_s"], SETTLE_SECONDS)


def goals_of_stepwise(rows: Sequence[Row]) -> Iterator[Goal]:
    """At every measure not behind the literal form."""
    rows_by_mode = {(row["scenario"], row["mode"]): row for row in rows}
    names = ("waiting_max_mb", "latency_p50_ms", "latency_p99_ms", "lost_percent", "variation", "settle_s")
    for scenario in dict.fromkeys(row["scenario"] for row in rows):
        ours, literal = rows_by_mode[scenario, "stepwise"], rows_by_mode[scenario, "stepwise-literal"]
        worse_measures = [name for name in names if ours[name] is not None and ours[name] > literal[name]]
        yield Goal(f"stepwise behind its literal form, {scenario}", ", ".join(worse_measures) or "in nothing",
                   "in nothing", not worse_measures)  # fmt: skip


def _at_most(goal: str, measured: float, limit: float) -> Goal:
    return Goal(goal, measured, f"at most {limit:g}", measured <= limit)


def _lost(scenario: Scenario, trace: Trace) -> float:
    """The share of what the slow stage could have applied while records waited for it."""
    contended = _contended(scenario)
    if contended is None:
        start, to = 1.0, scenario.seconds
    else:
        start, to = contended
    right = ideal(scenario)
    possible_bytes = right[round(to / GRID)] - right[round(start / GRID)]
    applied_bytes = _upto(trace.applied[COUNT], to) - _upto(trace.applied[COUNT], start)
    return max(1 - applied_bytes / float(possible_bytes), 0.0)


def _sibling(scenario: Scenario, trace: Trace) -> float:
    """The share of its input that the sibling branch did not get in time, while records waited for the slow one."""
    start, to = _contended(scenario) or (1.0, scenario.seconds)
    expected_bytes = OFFERED * SENDS[PARSE][KEEP] * (to - start)
    return max(1 - (_upto(trace.applied[KEEP], to) - _upto(trace.applied[KEEP], start)) / expected_bytes, 0.0)


def _contended(scenario: Scenario) -> tuple[float, float] | None:
    """From when to when records have to wait for the slow stage, whatever is done."""
    at = np.arange(len(ideal(scenario))) * GRID
    waits = np.flatnonzero(OFFERED * at - ideal(scenario) > 1.0)
    return (float(at[waits[0]]), float(at[waits[-1]])) if len(waits) else None


def _upto(course: Sequence[tuple[float, float]], at: float) -> float:
    times, applied_bytes = np.array(course).T
    return float(np.interp(at, times, applied_bytes, left=0.0))


def _per_second(course: Sequence[tuple[float, float]], seconds: float) -> Floats:
    return np.diff([_upto(course, at) for at in range(int(seconds) + 1)])


def _weighted(samples: Sequence[tuple[float, float]], percentiles: Sequence[float]) -> list[float]:
    values, weights = np.array(samples).T
    order = np.argsort(values)
    upto = np.cumsum(weights[order])
    return [float(values[order][np.searchsorted(upto, each / 100 * upto[-1])]) for each in percentiles]


def _variation(rates: Floats) -> float:
    return round(float(rates.std() / rates.mean()), 3) if len(rates) and rates.mean() else 0.0


def reversals(rates: Floats, turn: float) -> int:
    """How often a course turns round by at least `turn`."""
    if not len(rates):
        return 0
    extreme, direction, turns = float(rates[0]), 0, 0
    for rate in map(float, rates):
        if (direction >= 0 and rate > extreme) or (direction <= 0 and rate < extreme):
            if direction == 0 and abs(rate - extreme) < turn:
                continue
            direction = direction or (1 if rate > extreme else -1)
            extreme = rate
        elif abs(rate - extreme) >= turn:
            direction, extreme, turns = -direction, rate, turns + 1
    return turns


def settled(rates: Floats, right: Floats, start: float, to: float) -> float:
    """Seconds from `start` until the rate stays in the band around what is right, or all of them to `to`."""
    part, three = slice(int(start), int(to) - 1), np.ones(3) / 3
    rates, right = (np.convolve(each, three, "same") for each in (rates, right))
    outside = np.flatnonzero(np.abs(rates[part] - right[part]) > _BAND * right[part])
    return float(outside[-1] + 1) if len(outside) else 0.0


def _most(values: Iterator[float]) -> float | None:
    return max(values, default=None)


def _mb(bytes_: float) -> float:
    return round(float(bytes_) / 1e6, 2)
