"""The live view of jobs: what runs, how far it is, how far behind."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rich.table import Table

from springline.persistence.text.formatting import say_bytes
from springline.persistence.text.tables import plain_table
from springline.persistence.text.terminal import print_json
from springline.spark_jobs.streaming.application.status import Seen, look
from springline.spark_jobs.streaming.commands.arguments import Json, Watch
from springline.spark_jobs.streaming.commands.live import show_live
from springline.spark_jobs.streaming.commands.tables import as_it_stands
from springline.spark_jobs.streaming.jobs import read_jobs
from springline.spark_jobs.streaming.settings import StreamSettings


def list_jobs(watch: Watch = False, as_json: Json = False) -> None:
    """List the jobs: what runs, how far it is, how far behind."""
    settings = StreamSettings()
    if as_json:
        print_json([seen.as_json() for seen in _seen(settings)])
        return
    show_live(lambda: _table(_seen(settings), settings), watch)


def _seen(settings: StreamSettings) -> list[Seen]:
    jobs = read_jobs(settings.declarations)
    return [look(name, settings.folder(name), time.time()) for name in jobs]


def _table(jobs: list[Seen], settings: StreamSettings) -> Table:
    table = plain_table("job", "state", "for", "stage")
    table.caption_justify = "left"
    for name in ("round", "rows", "behind", "round takes", "state size", "late", "dead"):
        table.add_column(name, justify="right")
    for seen in jobs:
        first = [seen.job, seen.state, _span(seen.began)]
        for stage, told in seen.stages.items():
            table.add_row(*first, stage, *_progress(told))
            first = ["", "", ""]
        if not seen.stages:
            table.add_row(*first)
        if seen.phase:
            table.add_row("", as_it_stands(seen.phase))
        if seen.error:
            table.add_row("", as_it_stands(seen.error, style="red"))
    if not jobs:
        table.caption = f"no jobs are declared in {settings.declarations}"
    return table


def _progress(told: Mapping[str, Any]) -> list[str]:
    """What a stage has done, as fields of the table."""
    counts = told["counts"]
    return [
        f"{told['round']:,}",
        f"{counts.get('rows', counts.get('results', 0)):,}",
        f"{told['behind']:,}",
        f"{told['seconds'] * 1000:,.0f} ms",
        say_bytes(told["state_bytes"]),
        *(f"{counts[key]:,}" if key in counts else "" for key in ("late", "dead")),
    ]


def _span(began: float | None) -> str:
    """The time since then, as hours, minutes and seconds."""
    if began is None:
        return ""
    whole = int(time.time() - began)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
