"""The files of the pages, for a browser that has no Airflow before it."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import Route

from springline.airflow.pages import static_files

SITE = "http://pages.test"
PAGES = "/pages/"


def send_file(route: Route) -> None:
    """Answer a request for a page, or for a file that it loads."""
    name = urlsplit(route.request.url).path.removeprefix(PAGES)
    file = static_files.static(name.rpartition("/")[2]) if "/" in name else static_files.page(name)
    route.fulfill(content_type=file.headers["content-type"], body=bytes(file.body))
