"""The pages: who gets them, that nothing comes from outside, and that Airflow shows them where it should."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from airflow import plugins_manager
from airflow.api_fastapi.core_api.datamodels.plugins import ExternalViewResponse
from airflow.api_fastapi.core_api.security import is_safe_url
from fastapi import Request
from fastapi.testclient import TestClient

from springline.airflow.api import PREFIX
from springline.airflow.pages import static_files, views

STATIC = Path(static_files.__file__).parent / "static"
PAGES = sorted(views.PAGES)
SHARED_SHEETS = ("tokens.css", "page.css", "chart.css", "graph.css")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_and_all_that_it_loads_is_served(page, vera):
    """Modules that import modules too."""
    answer = vera.get(f"{PREFIX}/pages/{page}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    waiting = re.findall(r'(?:src|href)="static/([^"]+)"', answer.text)
    assert {f"{page}.js", f"{page}.css", *SHARED_SHEETS} == set(waiting)
    visited: set[str] = set()
    while waiting:
        visited.add(name := waiting.pop())
        loaded = vera.get(f"{PREFIX}/pages/static/{name}")
        kind = "text/css" if name.endswith(".css") else "text/javascript"
        assert (loaded.status_code, loaded.headers["content-type"]) == (200, f"{kind}; charset=utf-8"), name
        waiting += set(re.findall(r'from "\./([^"]+)"', loaded.text)) - visited
    assert "elements.js" in visited


def test_no_other_site_can_frame_a_page_or_put_anything_into_it(vera):
    """Scripts and styles come from here alone, and none stands in the page itself."""
    for place in ("lineage", "static/page.css", "static/lineage.js"):
        headers = vera.get(f"{PREFIX}/pages/{place}").headers
        policy = headers["content-security-policy"]
        assert "frame-ancestors 'self'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
        assert (headers["x-frame-options"], headers["x-content-type-options"]) == ("SAMEORIGIN", "nosniff")
    for page in PAGES:
        text = vera.get(f"{PREFIX}/pages/{page}").text
        assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=", text), page


def test_nothing_in_the_modules_reads_text_as_html_or_comes_from_outside():
    """A name is shown as text because there is no other way to show it."""
    for path in STATIC.iterdir():
        text = path.read_text().replace('"http://www.w3.org/2000/svg"', "")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|https?://", text), (
            path.name
        )
        assert path.name == "elements.js" or "textContent" not in text, (
            path.name
        )  # `write` escapes invisible characters


def test_what_is_no_page_is_not_found(vera, clients):
    """Names lead nowhere else; without a token there is nothing at all."""
    for place in ("nothing", "static/serving.py", "static/..%2Fserving.py", "page.css", "static/%2e%2e/views.py"):
        assert vera.get(f"{PREFIX}/pages/{place}").status_code == 404, place
    assert clients["nobody"].get(f"{PREFIX}/pages/lineage").status_code == 401


@pytest.mark.parametrize("root_path", ["", "/airflow"])
@pytest.mark.parametrize("cookie", ["", "_token=expired"])
def test_who_opens_a_page_without_a_login_is_sent_to_airflows_and_back(root, root_path, cookie):
    """Where Airflow is below a path too; who asks for no page is refused, as JSON."""
    browser = TestClient(
        root, root_path=root_path, follow_redirects=False, headers={"Cookie": cookie} if cookie else {}
    )
    place = f"{PREFIX}/pages/lineage?dag_id=etl&run_id=a%26b"
    answer = browser.get(root_path + place, headers={"Accept": "text/html,*/*;q=0.8"})
    assert answer.status_code == 303
    login, _, query = answer.headers["location"].partition("?")
    assert login == f"{root_path}/api/v2/auth/login"
    assert parse_qs(query) == {"next": [root_path + place]}
    request = Request({"type": "http", "scheme": "http", "server": ("airflow", 80), "path": "/", "headers": []})
    assert is_safe_url(root_path + place, request=request), "Airflow's login refuses a way that leads elsewhere"
    for path, accept in (
        (place, "*/*"),
        (f"{PREFIX}/pages/static/page.css", "text/css"),
        (f"{PREFIX}/api/v1/streams", "text/html"),
    ):
        refused = browser.get(root_path + path, headers={"Accept": accept})
        assert refused.status_code in (401, 403) and refused.json()["error"] in ("Unauthorized", "Forbidden")


def test_airflow_knows_every_place_of_a_page(vera):
    """Routes of their own, and places that Airflow has; it would drop the plugin without a word."""
    ui_plugins, _ = plugins_manager._get_ui_plugins()
    own_views = [view for view in ui_plugins if view["href"].startswith(PREFIX.strip("/"))]
    assert own_views == views.views(PREFIX)
    external_views = [ExternalViewResponse.model_validate(view) for view in own_views]
    assert {view.destination for view in external_views} == {"nav", "dag", "dag_run", "task"}
    assert len({view.url_route for view in external_views}) == len(external_views)
    for view in external_views:
        assert vera.get(f"/{view.href}").status_code == 200
