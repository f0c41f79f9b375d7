"""Serves the pages and their files, to logged-in users only, with headers that block other sites."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from pathlib import Path
from string import Template

from fastapi import APIRouter, HTTPException, Response

from springline.airflow.pages.views import PAGES

_HERE = Path(__file__).parent
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'self'",
    "X-Frame-Options": "SAMEORIGIN",  # Airflow's own pages show ours in a frame
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache",
}

router = APIRouter(prefix="/pages", include_in_schema=False)


@router.get("/static/{file}")
def static(file: str) -> Response:
    """Return a style sheet or a JavaScript module."""
    return _file_response(file, _files().get(file), _TYPES.get(Path(file).suffix, ""))


@router.get("/{page}")
def page(page: str) -> Response:
    """Return a page; it contains no data, but requests it from the API."""
    return _file_response(page, _pages().get(page), "text/html; charset=utf-8")


def _file_response(name: str, content: str | bytes | None, kind: str) -> Response:
    if content is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"no page or file {name!r}")
    return Response(content, media_type=kind, headers=HEADERS)


@cache
def _files() -> dict[str, bytes]:
    """Return all files that can be requested, by name; other names, such as paths, match nothing."""
    return {path.name: path.read_bytes() for path in (_HERE / "static").iterdir() if path.suffix in _TYPES}


@cache
def _pages() -> dict[str, str]:
    """Return the pages by name; they differ in title and module only."""
    template = Template((_HERE / "page.html").read_text(encoding="utf-8"))
    return {name: template.substitute(name=name, title=title) for name, title in PAGES.items()}
