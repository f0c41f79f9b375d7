"""`python -m benchmarks NAME --size quick|full`: measures, prints, and keeps the result in `results/NAME.json`.

`NAME` may be `all`: every one at its quick size, in less than an hour.
"""

from __future__ import annotations

import argparse
import logging
import sys
from importlib import import_module
from pathlib import Path

from rich.console import Console

from benchmarks.everything import run_all
from benchmarks.report import RESULTS, keep, show
from springline.persistence.profile import project_folder

BENCHMARKS = {  # by folder, what each measures
    "datasets": {
        "alluxio": "beside Alluxio's own write types on real servers: run time, what is at risk, recovery",
        "catalog": "what single calls take with a million datasets recorded",
        "dataset_calls": "what the API's calls about datasets take with 100,000 of them recorded",
        "lineage_page": "the lineage of 500 templates with 100,000 generations: answers and first picture",
        "links": "the same over a slow and a fast link",
        "object_store": "the paper's workload with S3 as the under-store, and the cache wiped on the way",
        "persistence": "the paper's workload under each strategy: run time, bytes, memory",
        "policies": "the orders of persisting compared on the same lineages, by simulation with many faults",
        "stores": "bytes a second to and from HDFS and Alluxio, by each of the ways that there are",
        "wide_tables": "what the digest of a table adds to its write, by the number of columns",
        "wipes": "what each strategy loses when the cache is wiped, and how long recovery takes",
    },
    "tracking": {
        "acker": "tuple tracking on one core: acks a second, memory a root in flight, balance of the ring",
        "tracking": "what tracking costs windows and the word count, and roots a second through Kafka and Spark",
        "tracking_steps": "the steps of the word count on one core: what tracking adds, without broker and Spark",
        "tracking_latency": "from the last ack of a root until it is known to be complete",
    },
    "windows": {
        "csv_decoders": "CSV to columns on one core: our decoder beside polars, 5,000 rows and one row a message",
        "window_kernels": "the steps of windowed statistics on one core, without broker and Spark",
        "window_latency": "from the row that closes a window to the result that can be read, by load",
        "window_scale": "what a row costs, and what is held in memory, by units and by groups",
        "windows": "windowed statistics from Kafka to Kafka, beside DuckDB, Polars, PySpark and PyFlink",
    },
    "join": {
        "join": "a join of skewed streams from Kafka to Kafka: every strategy, Spark's own join, DuckDB",
        "join_moves": "rounds of a task of a join while a quarter of its state leaves it",
        "join_routing": "messages a tuple, load and migration of every strategy of the join, by simulation on counts",
        "join_unit": "one task of a join on one core: what a tuple costs as its state grows from 1 to 30 M tuples",
    },
    "backpressure": {
        "backpressure": "the same under the platform's own modes on Kafka and Spark (full: half an hour)",
        "backpressure_simulation": "queue, latency and throughput under every mode of back-pressure, by simulation",
        "backpressure_stop": "what waits, and memory, while the consumer of a stream stands still for ten minutes",
    },
    "cluster": {
        "services": "what every server of the cluster takes: seconds until it is ready, and memory",
        "soak": "everything on the cluster profile, a random fault a minute: what comes out, memory (full: 90 minutes)",
    },
}
NAMES = {name: what for folder in BENCHMARKS.values() for name, what in folder.items()}
ALL = "all"


def silence_kafka_clients() -> None:
    """Drop the messages of Kafka's clients about connections."""
    logging.getLogger("springline.kafka").setLevel(logging.CRITICAL)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark that was named; 1 if it missed a goal, of all: if one did not come to its end.

    A benchmark is a module of its name, in one of these folders, with `run(size) -> Report`.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"{name:23} {what}" for name, what in NAMES.items()),
    )
    parser.add_argument("name", choices=[*sorted(NAMES), ALL], metavar="NAME")
    parser.add_argument("--size", choices=("quick", "full"), default="quick", help="within 2 minutes, or within 15")
    parser.add_argument("--into", type=Path, help="folder for the result, if not the one that the documents show")
    options = parser.parse_args(arguments)
    silence_kafka_clients()  # each run ends its broker, of which they would report that it is away
    console = Console(width=None if sys.stdout.isatty() else 160)
    if options.name == ALL:
        into = options.into or project_folder() / "var" / "benchmarks"  # quick ones are not for the documents
        into.mkdir(parents=True, exist_ok=True)
        return 0 if run_all(sorted(NAMES), into, console) else 1
    folder = next(folder for folder, names in BENCHMARKS.items() if options.name in names)
    report = import_module(f"benchmarks.{folder}.{options.name}").run(options.size)
    console.print(f"kept in {keep(report, options.into or RESULTS)}", markup=False, highlight=False)
    show(report, console)
    return 0 if all(goal.met for goal in report.goals) else 1


if __name__ == "__main__":
    sys.exit(main())
