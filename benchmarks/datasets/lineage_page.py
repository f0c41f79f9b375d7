"""The lineage of 500 templates with 200 days each: answers of the API, the first picture in Chromium, its movement."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from typing import Any

import numpy as np
from playwright.sync_api import Page, Route, sync_playwright
from sqlalchemy import insert

from benchmarks.datasets.catalog import write_one
from benchmarks.datasets.dataset_calls import client, temporary_platform
from benchmarks.report import Goal, Report
from springline.airflow.pages import static_files
from springline.persistence.catalog import schema
from springline.persistence.model.dataset import Operation
from springline.persistence.platform import Platform
from springline.services.packages.chromium import ensure_chromium

_TEMPLATES, _DAYS = 500, 200
_CHAIN = 10  # templates of a DAG, each made from the one before
_PERSISTED = 0.95  # share of the days
_FIRST = date(2026, 1, 1)
_ROUNDS = {"quick": 20, "full": 100}
_PAINTS = {"quick": 3, "full": 10}
_FRAMES = 120
_SITE = "http://pages.invalid/"
_CALLS = {
    "lineage, grouped by DAG": "lineage",
    "lineage, all templates": "lineage?expand=*",
    "lineage of a DAG": "lineage?dag_id=dag7",
    "a generation": "lineage/cell?path=dag7/2026-03-01/t5",
}
_MOVE = """async ([frames, deltas]) => {
    const board = document.querySelector(".board");
    let before = performance.now();
    const begun = before;
    const gaps = [];
    for (let i = 0; i < frames; i += 1) {
        const delta = deltas[i % deltas.length];
        const place = {clientX: 500, clientY: 400, bubbles: true, cancelable: true};
        board.dispatchEvent(new WheelEvent("wheel", {...delta, ...place}));
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        gaps.push(now - before);
        before = now;
    }
    gaps.sort((a, b) => a - b);
    return [1000 * frames / (before - begun), gaps[Math.floor(frames * 0.95)]];
}"""
_GESTURES = {
    "pan": [{"deltaX": 3, "deltaY": 25}],
    "zoom": [*[{"deltaY": 100, "ctrlKey": True}] * 15, *[{"deltaY": -100, "ctrlKey": True}] * 15],
}


def run(size: str) -> Report:
    """Measure as a user who may read everything; between two answers a dataset is written."""
    with temporary_platform() as platform:
        fill_templates(platform, _TEMPLATES, _DAYS)
        with client(platform) as get:
            rows = [_timed_first(get), *measure_calls(get, platform, _ROUNDS[size])]
            with opened(get) as page:
                rows += measure_page(page, _PAINTS[size])
    return Report("lineage_page", size, rows, _goals(rows), ["SQLite; Chromium without a graphics card."])


def _goals(rows: list[dict[str, Any]]) -> list[Goal]:
    value = {row["what"]: row for row in rows}
    slowest = max(value[call]["p95"] for call in _CALLS)
    picture = value["first picture, all templates"]["p50"]
    slow = min(value[f"pictures a second, {gesture}"]["p50"] for gesture in _GESTURES)
    return [
        Goal("answer of the API, slowest call: 95th percentile", f"{slowest} ms", "at most 200 ms", slowest <= 200),
        Goal("first picture of 500 templates: median", f"{picture} ms", "at most 1,000 ms", picture <= 1000),
        Goal("pictures a second while 500 templates move: slower gesture", f"{slow}", "at least 30", slow >= 30),
    ]


def fill_templates(platform: Platform, templates: int, days: int) -> None:
    """Record a generation of each template for each day, as if DAG runs had made them; the newest are not persisted."""
    paths = [f"dag{i // _CHAIN}/{{ds}}/t{i % _CHAIN}" for i in range(templates)]
    platform.catalog.register_operations(
        [Operation(f"op{i}", "1", idempotent=True, output=path) for i, path in enumerate(paths)]
    )
    now = time.time()
    with platform.catalog.write_transaction() as connection:
        for day in range(days):
            ds, is_persisted = str(_FIRST + timedelta(day)), day < days * _PERSISTED
            rows, sources = [], []
            for i, path in enumerate(paths):
                key, made_at = day * templates + i + 1, now - 86_400.0 * (days - day)
                rows.append({
                    "id": key, "path": path.format(ds=ds), "generation": 1, "phase": "committed", "bytes": 10**7,
                    "cache": "evicted" if is_persisted else "present", "under": "present" if is_persisted else "none",
                    "strategy": "async_store", "persist_requested": True, "operation": f"op{i}", "version": "1",
                    "params": {"ds": ds}, "compute_seconds": 2.0, "dag_id": f"dag{i // _CHAIN}",
                    "run_id": f"scheduled__{ds}T00:00:00+00:00", "task_id": f"t{i % _CHAIN}", "created_at": made_at,
                    "committed_at": made_at, "commit_number": key, "persisted_at": now if is_persisted else None,
                    "cache_location": path.format(ds=ds), "under_location": path.format(ds=ds) if is_persisted else "",
                })  # fmt: skip
                if i % _CHAIN:
                    sources.append({"generation_id": key, "position": 0, "source_id": key - 1})
            connection.execute(insert(schema.generation), rows)
            connection.execute(insert(schema.source), sources)


def _timed_first(get: Callable[[str], Any]) -> dict[str, Any]:
    """The first answer after the start of the server, which reads the whole catalog."""
    started_at = time.perf_counter()
    assert get("lineage").status_code == 200
    return _row("first answer of a server", [(time.perf_counter() - started_at) * 1000], "ms")


def measure_calls(get: Callable[[str], Any], platform: Platform, rounds: int) -> list[dict[str, Any]]:
    """Milliseconds of each call, from the request to the whole answer; before each, a dataset is written."""
    rows = []
    for n, (what, place) in enumerate(_CALLS.items()):
        took = []
        for i in range(rounds):
            write_one(platform, f"new/{n}-{i}")
            started_at = time.perf_counter()
            answer = get(place)
            took.append((time.perf_counter() - started_at) * 1000)
            assert answer.status_code == 200, answer.text
        rows.append(_row(what, took, "ms"))
    return rows


def measure_page(page: Page, paints: int) -> list[dict[str, Any]]:
    """Milliseconds until the first card is painted, and pictures a second while all cards move."""
    rows = []
    for what, query in (("grouped by DAG", ""), ("all templates", "?grouping=none")):
        took = []
        for _ in range(paints):
            page.goto("about:blank")
            started_at = time.perf_counter()
            page.goto(f"{_SITE}pages/lineage{query}", wait_until="commit")
            page.locator(".template").first.wait_for()
            page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            took.append((time.perf_counter() - started_at) * 1000)
        rows.append(_row(f"first picture, {what}", took, "ms"))
    assert page.locator(".template").count() >= _TEMPLATES
    for gesture, deltas in _GESTURES.items():
        rates = [page.evaluate(_MOVE, [_FRAMES, deltas])[0] for _ in range(paints)]
        rows.append(_row(f"pictures a second, {gesture}", rates, "1/s"))
    return rows


def _row(what: str, values: list[float], unit: str) -> dict[str, Any]:
    p50, p95 = np.percentile(values, [50, 95])
    return {"what": what, "p50": round(p50), "p95": round(p95), "unit": unit, "measured": len(values)}


@contextmanager
def opened(get: Callable[[str], Any]) -> Iterator[Page]:
    """A tab of Chromium whose pages are those of the plugin, with the answers of `get`."""
    root = os.geteuid() == 0
    program = ensure_chromium(os.environ, root=root)

    def answer(route: Route) -> None:
        place = route.request.url.removeprefix(_SITE)
        if place.startswith("api/v1/"):
            response = get(place.removeprefix("api/v1/"))
            route.fulfill(status=response.status_code, content_type="application/json", body=response.content)
            return
        name = place.partition("?")[0].removeprefix("pages/")
        file = static_files.static(name.removeprefix("static/")) if "/" in name else static_files.page(name)
        route.fulfill(content_type=file.headers["content-type"], body=bytes(file.body))

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(program), args=["--no-sandbox"] if root else [])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.route(f"{_SITE}**", answer)
        yield page
        browser.close()
