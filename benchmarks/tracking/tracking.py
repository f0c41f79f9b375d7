"""What tracking costs: windows and the word count with it and without; acks a second through Kafka and Spark."""

from __future__ import annotations

import os
import random
import sys
from contextlib import closing
from dataclasses import replace
from statistics import median

from benchmarks.report import Goal, Report, Row
from benchmarks.streams.broker import Place, place
from benchmarks.streams.cpu import TITLE
from benchmarks.streams.running_job import Measured, Step, run_timed
from benchmarks.tracking.acking_job import AckingJob
from benchmarks.windows.job import Case, feed, measure
from springline.spark_jobs.streaming.examples.netflow import Flows
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from springline.spark_jobs.streaming.tracking.config import Delivery, TrackingConfig
from springline.spark_jobs.streaming.wordcount.job import WordCountJob

_WARM = 0.3
_LINES = 2_000  # in a message
_WORDS_A_LINE = 4  # in a line
_VOCABULARY = 20_000
_TOPIC, _BLOCKS = "lines", "blocks"
_BY_FOLD, _BY_ROW = "tracking alone, roots by fold", "tracking alone, two acks a root"
_IN_A_BLOCK = 50_000  # rows that a message of the job that only tracks stands for


def run(size: str) -> Report:
    """With and without in turn, so that a change of the machine's mood meets both."""
    rows, lines, roots, turns = (
        (16_000_000, 8_000_000, 40_000_000, 3) if size == "full" else (8_000_000, 2_000_000, 10_000_000, 2)
    )
    windows = Case("price", "arrow", Flows(rows))
    results: dict[tuple[str, str], list[Measured]] = {}
    with place() as where:
        feed(where, windows)
        _feed_lines(where, lines)
        _feed_blocks(where, roots // _IN_A_BLOCK)
        for turn in range(turns):
            for tracked in (False, True):
                case = replace(windows, tracked=tracked)
                _note(results, "windows, messages as roots", tracked, measure(where, case, warm=_WARM, turn=turn))
                _note(results, "word count, rows as roots", tracked, _counted(where, lines, tracked, turn))
            for what in (_BY_FOLD, _BY_ROW):
                _note(results, what, True, _acked(where, roots, turn, what == _BY_FOLD))
    table = [_row(what, which, measurements) for (what, which), measurements in results.items()]
    return Report("tracking", size, table, _goals(results), _remarks(rows, lines, roots, turns))


def _note(results: dict[tuple[str, str], list[Measured]], what: str, tracked: bool, measured: Measured) -> None:
    which = "tracked" if tracked else "not tracked"
    results.setdefault((what, which), []).append(measured)
    print(
        f"{what}, {which}: {measured.rate / 1e6:.3f} M rows/s, {measured.acks / 1e6:.2f} M acks/s",
        file=sys.stderr,
        flush=True,
    )


def _feed_lines(where: Place, lines: int) -> None:
    drawn = random.Random(20130101)
    vocabulary = [f"word{number:05}" for number in range(_VOCABULARY)]
    with closing(Kafka(Cluster(where.kafka))) as log:
        log.create({_TOPIC: 2})
        with log.record_sender() as sending:
            for number in range(lines // _LINES):
                text = "\n".join(" ".join(drawn.choices(vocabulary, k=_WORDS_A_LINE)) for _ in range(_LINES))
                sending.send(OutgoingRecord(_TOPIC, number % 2, text.encode()))


def _feed_blocks(where: Place, messages: int) -> None:
    with closing(Kafka(Cluster(where.kafka))) as log:
        log.create({_BLOCKS: 2})
        with log.record_sender() as sending:
            for number in range(messages):
                sending.send(OutgoingRecord(_BLOCKS, number % 2, b"rows"))


def _acked(where: Place, roots: int, turn: int, folded: bool) -> Measured:
    name = f"a{turn}_{int(folded)}_{os.getpid()}"
    job = AckingJob(name, _BLOCKS, _IN_A_BLOCK, TrackingConfig(name, ackers=2, max_in_flight=roots), folded)
    path = (Step("spring", 2), Step("acking", 2))
    measured = run_timed(job, where.stream_settings(name), path, roots, _WARM, 2, roots)
    where.forget(name)
    return measured


def _counted(where: Place, lines: int, tracked: bool, turn: int) -> Measured:
    name = f"c{turn}_{int(tracked)}_{os.getpid()}"
    tracking = TrackingConfig(name, max_in_flight=lines, delivery=Delivery.AT_LEAST_ONCE) if tracked else None
    job = WordCountJob(name, _TOPIC, tracking, max_messages_per_round=max(lines // _LINES // 12, 1))
    ackers = 1 if tracked else 0
    path = (Step("split", 2), Step("count", 2))
    measured = run_timed(job, where.stream_settings(name), path, lines, _WARM, ackers, lines * ackers)
    where.forget(name)
    return measured


def _row(what: str, which: str, measurements: list[Measured]) -> Row:
    rates = sorted(each.rate for each in measurements)
    median_run = sorted(measurements, key=lambda each: each.cpu)[len(measurements) // 2]
    row: dict[str, object] = {
        "job": what, "": which, "M rows/s": round(median(rates) / 1e6, 3), "least": round(rates[0] / 1e6, 3),
        "most": round(rates[-1] / 1e6, 3), "CPU us a row": round(median(each.cpu for each in measurements), 3),
        TITLE: median_run.cpu_parts.nanoseconds(), "rounds": median_run.rounds,
    }  # fmt: skip
    if measurements[0].acks:
        row["M acks/s"] = round(median(each.acks for each in measurements) / 1e6, 2)
        row["s until the last is complete"] = round(median(each.lag_seconds for each in measurements), 2)
    return row


def _goals(results: dict[tuple[str, str], list[Measured]]) -> list[Goal]:
    def figure(what: str, which: str, name: str) -> float:
        return float(median(getattr(each, name) for each in results[what, which]))

    goals = []
    for what, limit in (("windows, messages as roots", 5), ("word count, rows as roots", 8)):
        price = round(100 * (1 - figure(what, "not tracked", "cpu") / figure(what, "tracked", "cpu")), 1)
        goals.append(Goal(f"price of tracking in CPU time, {what}, %", price, f"at most {limit}", price <= limit))
    roots = round(figure(_BY_FOLD, "tracked", "rate") / 1e6, 2)
    goals.append(Goal("roots by fold through Kafka and Spark, M/s", roots, "at least 10", roots >= 10))
    acks = round(figure(_BY_ROW, "tracked", "acks") / 1e6, 2)
    goals.append(Goal("acks by row through Kafka and Spark, M/s", acks, "at least 4", acks >= 4))
    return goals


def _remarks(rows: int, lines: int, roots: int, turns: int) -> list[str]:
    return [
        f"{turns} turns; {rows:,} net-flow rows, 5,000 a message; {lines:,} lines of {_WORDS_A_LINE} words, "
        f"{_LINES:,} a message; {roots:,} roots that are tracked and nothing else; {_WARM:.0%} of each go before the "
        "clock starts. Broker, Spark and ackers share two cores; one acker, two where nothing else is done. All "
        "words of a round in one unit are one ack; registrations are not counted. CPU of broker, JVM and workers.",
    ]
