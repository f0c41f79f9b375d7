"""The page of the lineage with the answers of a real catalog, without Airflow: what a browser asks is answered here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, Request, Route
from pydantic import TypeAdapter

from springline.airflow.lineage.cell import CellDetail, describe_cell
from springline.airflow.lineage.grouping import Grouping
from springline.airflow.lineage.live_index import LiveIndex
from springline.airflow.lineage.overview import LineageOverview, StreamNode, build_overview
from springline.airflow.lineage.template_graph import LineageFilter
from springline.persistence.model.dataset import DatasetStatus, Ref
from springline.persistence.model.path_partition import PathPartition
from springline.persistence.platform import Platform
from tests.support.airflow.page_files import SITE, send_file

API = "/api/v1/"
AIRFLOW = "/api/v2/"


@dataclass
class LineageSite:
    """Answers a page's requests; `posted` are the bodies of what it sent."""

    platform: Platform
    posted: list[tuple[str, Any]] = field(default_factory=list)
    answers: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    streams: Sequence[StreamNode] = ()

    def __post_init__(self) -> None:
        self._index = LiveIndex(self.platform.catalog)

    def open(self, page: Page, query: str = "") -> None:
        """Open the page of the lineage, and answer its requests from now on."""
        page.route(f"{SITE}/**", self._answer)
        page.goto(f"{SITE}/pages/lineage{query}")

    def _answer(self, route: Route, request: Request) -> None:
        address = urlsplit(request.url)
        if address.path.startswith((API, AIRFLOW)):
            status, body = self._answer_api(address.path, parse_qs(address.query), request)
            route.fulfill(status=status, content_type="application/json", body=body)
            return
        send_file(route)

    def _answer_api(self, path: str, params: Mapping[str, list[str]], request: Request) -> tuple[int, str]:
        place = path.removeprefix(API)
        if request.method == "POST":
            body = request.post_data_json
            self.posted.append((place, body))
            return 200, json.dumps(self.answers[place](body))
        self._index.refresh()
        value = {name: values[0] for name, values in params.items()}
        if place == "lineage":
            return 200, self._overview(value, params.get("expand", []))
        if place == "lineage/cell":
            return self._cell(value)
        if place == "lineage/values":
            dag_ids = {row.dag_id for row in self._index.rows.values() if value.get("text", "") in row.dag_id}
            return 200, json.dumps({"values": sorted(dag_ids) if value["field"] == "dag_id" else []})
        return 404, json.dumps({"detail": place})

    def _overview(self, value: Mapping[str, str], expand: list[str]) -> str:
        row_filter = LineageFilter(
            dag_id=value.get("dag_id", ""), task_id=value.get("task_id", ""), prefix=value.get("prefix", ""),
            run_ids=frozenset([value["run_id"]] if "run_id" in value else []),
            status=DatasetStatus(value["state"]) if "state" in value else None,
            first=value.get("first", ""), last=value.get("last", ""),
        )  # fmt: skip
        grouping = Grouping(value["grouping"]) if "grouping" in value else None
        overview = build_overview(self._index, row_filter, lambda dag_id: True, grouping, expand, self.streams)
        return TypeAdapter(LineageOverview).dump_json(overview).decode()

    def _cell(self, value: Mapping[str, str]) -> tuple[int, str]:
        place = self._index.place_of(value["path"]) if "path" in value else None
        template, partition = place or (value.get("template", ""), value.get("partition", ""))
        key = self._index.templates[template].cells.get(partition) if template in self._index.templates else None
        if key is None:
            return 404, json.dumps({"detail": f"no dataset in {partition}"})
        row = self._index.rows[key]
        ref = Ref(row.path, row.generation)
        lineage = self.platform.catalog.lineage_around([ref], down=False)
        costs = self.platform.catalog.load_cost_model(lineage)
        detail = describe_cell(ref, PathPartition(template, partition), lineage, costs, self._index, {})
        return 200, TypeAdapter(CellDetail).dump_json(detail).decode()
