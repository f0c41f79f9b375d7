"""The queries that the benchmarks of windows ask, of net flows."""

from __future__ import annotations

from itertools import product

ONE = (
    "SELECT sip, type, timestamp, count(*) AS n, sum(bytes) AS b, sum(packets) AS p FROM flows "
    "GROUP BY sip, type, timestamp WINDOWING 60 s"
)
PEER = (  # the same for those that group all rows at once
    "SELECT timestamp // 60 AS w, sip, type, count(*) AS n, sum(bytes) AS b, sum(packets) AS p FROM {} GROUP BY ALL"
)


def hundred() -> dict[str, str]:
    """A hundred queries: three key sets, four filters, four windows, four lists of aggregates."""
    windows = ("60 s", "HOP(60 s, 20 s)", "300 s", "LANDMARK('2023-01-01', 60 s)")
    keys = ("sip, type", "sip", "type")
    filters = ("", "WHERE type = 't3'", "WHERE bytes > 1000", "WHERE sip LIKE '10.0.1.%'")
    values = ("count(*) AS n", "sum(bytes) AS b", "avg(packets) AS p", "max(bytes) AS m, min(bytes) AS i")
    texts = [
        f"SELECT {key}, {value} FROM flows {where} GROUP BY {key} WINDOWING {window}"
        for window, key, where, value in product(windows, keys, filters, values)
    ]
    return {f"q{number}": text for number, text in enumerate(texts[::2] + texts[1::2]) if number < 100}
