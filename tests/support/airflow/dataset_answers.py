"""The answers about a dataset, as pages get it: shaped by the API's own classes, with the values of a usual day."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from springline.airflow.api.generations import DatasetListing, ListedDataset
from springline.airflow.content.generation_content import GenerationRows, GenerationSchema
from springline.airflow.content.table_head import ContentColumn
from springline.airflow.lineage.comparison import Change, ComparedGeneration, ComparedValue, Comparison
from springline.airflow.lineage.dataset_detail import Chain, DatasetDetail, DatasetEvent, DatasetSummary
from springline.airflow.lineage.graph import Edge, Node
from springline.airflow.lineage.neighbourhood import Neighbourhood

PATH = "etl/2013-01-05/clean"
NOW = time.time()
COLUMNS = (
    ContentColumn("year", "int32", False), ContentColumn("carrier", "string"), ContentColumn("dep_delay", "double"),
    ContentColumn("time_hour", "timestamp[us, tz=UTC]"), ContentColumn("tags", "list<element: string>"),
    ContentColumn("blob", "binary"),
)  # fmt: skip

Answers = dict[str, tuple[int, Any]]


def summary(path: str, generation: int = 1, status: str = "persisted") -> DatasetSummary:
    """A generation by name and state."""
    return DatasetSummary(path, generation, status, 1_234_567, NOW - 7200)


def detail(path: str = PATH, **changes: Any) -> DatasetDetail:
    """Everything about a generation that is only in the cache."""
    history = [
        DatasetEvent(NOW - age, event, actor, reason, "committed", "present", "none")
        for age, event, actor, reason in (
            (7300, "opened", "worker:1", ""), (7210, "cached", "worker:1", ""), (7209, "committed", "worker:1", ""),
            (400, "pinned", "ulla", "requested manually"),
            (90, "claimed", "persister here:7", ""), (30, "released", "persister here:7", "the under-store is away"),
        )
    ]  # fmt: skip
    fields: dict[str, Any] = {
        "path": path, "generation": 2, "status": "cached",
        "headline": "Only in the cache: after a loss, recovery re-runs 3 operations, about 12 s.",
        "cache": "present", "under_store": "none", "under_store_away": "", "bytes": 48_300_000, "rows": 842_113,
        "checksum": "8f3c77f1c0de4f1a9b62e1f0c9a7d3e5", "under_checksum": "", "digest": "52d04dc20036dbd8",
        "strategy": "async_and_sync", "persist_requested": True, "checkpoint": False, "pinned": True,
        "superseded": False, "reads": 4, "operation": "clean", "version": "5f8a2c",
        "params": {"ds": "2013-01-05"}, "tables": (), "dag_id": "etl_lineage",
        "run_id": "scheduled__2013-01-05T00:00:00+00:00", "task_id": "clean", "created_at": NOW - 7300,
        "committed_at": NOW - 7209, "persisted_at": None,
        "last_read_at": NOW - 600, "compute_seconds": 2.14, "method": "data", "predicted_seconds": 2.8,
        "actual_seconds": None, "attempts": 1, "error": "the under-store is away",
        "report": {"valid": True, "rules": [{"rule": "delay", "broken_rows": 0}]},
        "paragraphs": {
            "Dataset": f"{path}@2: 48.3 MB.", "Location": "cached: in the cache, not in the under-store.",
            "Queue": "1 is before it: high value for its size.",
            "Transfer to the under-store": "Its data is sent, about 2.8 s.",
            "If the cache were lost now": "It could be restored in about 12 s.",
        },
        "chain": Chain(["run load to recompute a@1", "run join to recompute b@1", "run clean on b@1"], 12.0, []),
        "generations": [summary(path, 2, "cached"), summary(path, 1)],
        "sources": [summary("etl/2013-01-05/raw", 2), summary("etl/planes")],
        "dependents": [summary("etl/2013-01-05/hours", 1, "cached"), summary("etl/2013-01-05/causes", 1, "lost")],
        "actions": ["recover", "persist", "unpin", "mark"], "refused": {}, "hidden": 1, "history": history,
    }  # fmt: skip
    return DatasetDetail(**{**fields, **changes})


def neighbourhood(path: str = PATH) -> Neighbourhood:
    """Two sources, one of which has a source, and three dependents."""
    nodes = (
        Node("etl/landing/flights@2", "etl/landing/flights", 2, -2, "persisted", 10**8, "land", "etl", "r", "t", 0, 0),
        Node("etl/2013-01-05/raw@2", "etl/2013-01-05/raw", 2, -1, "persisted", 10**8, "load", "etl", "r", "t", 1, 0),
        Node("etl/planes@1", "etl/planes", 1, -1, "evicted", 10**6, "load", "etl", "r", "t", 0, 1),
        Node(f"{path}@2", path, 2, 0, "cached", 48_300_000, "clean", "etl", "r", "t", 2, 0),
        Node("etl/2013-01-05/hours@1", "etl/2013-01-05/hours", 1, 1, "cached", 10**5, "hours", "etl", "r", "t", 3, 0),
        Node("etl/2013-01-05/causes@1", "etl/2013-01-05/causes", 1, 1, "lost", 10**5, "causes", "etl", "r", "t", 3, 1),
        Node("etl/report@9", "etl/report", 9, 2, "irrecoverable", 10**4, "report", "etl", "r", "t", 4, 0),
    )
    pairs = ((0, 1), (1, 3), (2, 3), (3, 4), (3, 5), (5, 6))
    edges = tuple(Edge(nodes[a].key, nodes[b].key, stale=a == 2) for a, b in pairs)
    return Neighbourhood(path, 2, nodes, edges, 0, 1, 0, 4)


def rows(path: str = PATH, **changes: Any) -> GenerationRows:
    """Three rows with values of every kind."""
    cells = [
        ["2013", "UA", "2.5", "2013-01-05 05:00:00Z", '["on time", "<b>"]', "0x00ff (2 bytes)"],
        ["2013", None, "NaN", None, "[]", None],
        ["2013", "שלום", "-Infinity", "2013-01-05 06:00:00Z", None, "(0 bytes)"],
    ]  # fmt: skip
    fields: dict[str, Any] = {"is_complete": False, **changes}
    return GenerationRows(path, 2, "cache", "parquet", COLUMNS, cells, 8, 0, **fields)


def comparison(path: str = PATH, **changes: Any) -> Comparison:
    """A column is new, one is gone, one has another type; there are more rows."""
    before = ComparedGeneration(1, 40_000_000, 800_000, "clean", "11aa22", NOW - 90_000, 2.0, "")
    after = ComparedGeneration(2, 48_300_000, 842_113, "clean", "5f8a2c", NOW - 7300, 2.14, "")
    columns = (
        ComparedValue("year", Change.SAME, "int32, never null", "int32, never null"),
        ComparedValue("tags", Change.ADDED, "", "list<element: string>"),
        ComparedValue("dep_delay", Change.CHANGED, "int64", "double"),
        ComparedValue("tailnum", Change.REMOVED, "string", ""),
    )  # fmt: skip
    params = (ComparedValue("ds", Change.SAME, "2013-01-05", "2013-01-05"),)
    return Comparison(path, before, after, changes.get("same_digest", False), columns, params)


def listing(*datasets: tuple[str, str], is_complete: bool = True) -> DatasetListing:
    """A list of paths with their states."""
    return DatasetListing(
        [
            ListedDataset(path, 1, status, 1000 * (i + 1), 10, NOW - 60 * i, "clean", "etl_lineage", f"run {i}")
            for i, (path, status) in enumerate(datasets)
        ],
        is_complete,
    )


def answers(path: str = PATH, place: str = "", **changes: Any) -> Answers:
    """All that the page of a dataset asks for; `place` is the path as an address has it."""
    place = place or path
    about = detail(path, **changes)
    schema = GenerationSchema(path, 2, "cache", "parquet", "part-00000.snappy.parquet", 8, COLUMNS, False)
    parts = {"schema": schema, "rows": rows(path), "lineage": neighbourhood(path), "comparison": comparison(path)}
    name = f"datasets/{place}@{about.generation}"
    return {
        f"datasets/{place}": (200, asdict(about)),
        **{f"{name}/{part}": (200, asdict(answer)) for part, answer in parts.items()},
        "datasets": (200, asdict(listing((path, "cached"), ("etl/planes", "persisted")))),
    }
