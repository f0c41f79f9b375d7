"""Windowed statistics in Flink's SQL, from one topic to another; prints the seconds that it took, its start included.

Runs in an environment of its own: nothing of the project can be imported here.
"""

import json
import sys
import time
from pathlib import Path

from pyflink.table import EnvironmentSettings, TableEnvironment

KINDS = {"int": "BIGINT", "float": "DOUBLE", "timestamp(s)": "DOUBLE", "text": "STRING"}
SETTINGS = {
    "parallelism.default": "2",
    "pipeline.object-reuse": "true",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "50000",
    "table.local-time-zone": "UTC",
}
RESULTS = "`sip` STRING, `type` STRING, `n` BIGINT, `b` BIGINT, `p` BIGINT"
SUMS = "`sip`, `type`, count(*), sum(`bytes`), sum(`packets`)"


def main(setup: dict) -> float:
    """Seconds until all messages before the `ends` are through."""
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in {**SETTINGS, "pipeline.jars": Path(setup["jar"]).as_uri()}.items():
        environment.get_config().set(name, value)
    for statement in by_rows(setup) if setup["a row a message"] else by_lines(setup):
        environment.execute_sql(statement)
    started_at = time.monotonic()
    environment.execute_sql("INSERT INTO results SELECT * FROM found").wait()
    return time.monotonic() - started_at


def by_rows(setup: dict) -> list[str]:
    """Event-time windows over a topic of one row a message."""
    columns = ", ".join(f"`{name}` {KINDS[kind]}" for name, kind in setup["fields"])
    at = "`at` AS TO_TIMESTAMP_LTZ(CAST(`timestamp` * 1000 AS BIGINT), 3), WATERMARK FOR `at` AS `at`"
    window = "TABLE(TUMBLE(TABLE source, DESCRIPTOR(`at`), INTERVAL '60' SECOND))"
    return [
        f"CREATE TABLE source ({columns}, {at}) WITH ({source(setup)}, 'format' = 'csv')",
        f"CREATE TEMPORARY VIEW found AS SELECT window_start, {SUMS} FROM {window} "
        "GROUP BY window_start, window_end, `sip`, `type`",
        f"CREATE TABLE results (`w` TIMESTAMP(3), {RESULTS}) WITH ('connector' = 'kafka', 'topic' = '{setup['out']}', "
        f"'properties.bootstrap.servers' = '{setup['kafka']}', 'format' = 'json')",
    ]


def by_lines(setup: dict) -> list[str]:
    """Groups by minute over a topic of many rows a message, of which only the columns that are needed are cut out."""
    names = [name for name, _ in setup["fields"]]
    kinds = dict(setup["fields"])
    columns = ", ".join(
        f"CAST(SPLIT_INDEX(line, ',', {names.index(name)}) AS {KINDS[kinds[name]]}) AS `{name}`"
        for name in ("timestamp", "sip", "type", "bytes", "packets")
    )
    minute = "CAST(FLOOR(`timestamp` / 60) AS BIGINT)"
    return [
        f"CREATE TABLE messages (`value` STRING) WITH ({source(setup)}, 'format' = 'raw')",
        f"CREATE TEMPORARY VIEW source AS SELECT {columns} FROM messages "
        "CROSS JOIN UNNEST(SPLIT(`value`, U&'\\000A')) AS t(line) WHERE line <> ''",
        f"CREATE TEMPORARY VIEW found AS SELECT {minute}, {SUMS} FROM source GROUP BY {minute}, `sip`, `type`",
        f"CREATE TABLE results (`w` BIGINT, {RESULTS}) WITH ('connector' = 'blackhole')",
    ]


def source(setup: dict) -> str:
    """The options of a table over the topic up to the `ends`."""
    ends = ";".join(f"partition:{unit},offset:{end}" for unit, end in setup["ends"].items())
    return (
        f"'connector' = 'kafka', 'topic' = '{setup['topic']}', 'properties.bootstrap.servers' = '{setup['kafka']}', "
        "'properties.group.id' = 'peer', 'scan.startup.mode' = 'earliest-offset', "
        f"'scan.bounded.mode' = 'specific-offsets', 'scan.bounded.specific-offsets' = '{ends}'"
    )


if __name__ == "__main__":
    print(main(json.loads(sys.argv[1])))
