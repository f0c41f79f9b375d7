"""Middleware before all routes: refuses requests without a user, cross-site changes, large bodies and websockets.

A browser that opens a page without a login is redirected to Airflow's login, and back from there, as for Airflow's own
pages.
"""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import urlencode, urlsplit

from airflow.api_fastapi.core_api.security import bearer_scheme, get_user
from fastapi import HTTPException, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from springline.airflow.api import PREFIX
from springline.airflow.api.problems import problem_of

MAX_BODY_BYTES = 256 << 10  # of a request's body; the longest query is 20,000 characters
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class AuthMiddleware:
    """Authenticates the request with Airflow before FastAPI reads the body, which it would do for anybody."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the app, or refuse it."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "websockets are not supported"})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            try:
                await get_user(request, None, await bearer_scheme(request))
            except HTTPException:
                if not _opens_page(request):
                    raise
                await _to_login(request)(scope, receive, send)
                return
            if request.method not in _SAFE_METHODS and _is_cross_site(request):
                raise HTTPException(HTTPStatus.FORBIDDEN, "cross-site requests must not change anything")
            if int(request.headers.get("content-length") or 0) > MAX_BODY_BYTES:
                raise _too_large()
        except HTTPException as error:
            await JSONResponse(problem_of(error).model_dump(), error.status_code, error.headers)(scope, receive, send)
            return
        await self._app(scope, _limit_body(receive), send)


def _opens_page(request: Request) -> bool:
    """Whether a browser requests a page to show, rather than a resource of a page."""
    path = request.url.path.removeprefix(_root(request) + PREFIX)
    accept = request.headers.get("accept", "")
    return request.method in _SAFE_METHODS and path.startswith("/pages/") and "text/html" in accept


def _to_login(request: Request) -> Response:
    back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"{_root(request)}/api/v2/auth/login?{urlencode({'next': back})}", HTTPStatus.SEE_OTHER)


def _root(request: Request) -> str:
    """Return Airflow's root path, below its host."""
    return str(request.scope.get("root_path", "")).removesuffix(PREFIX)


def _is_cross_site(request: Request) -> bool:
    """Whether a browser sends this from another site's page; it sends the login cookie along, to other ports too."""
    if fetch_site := request.headers.get("sec-fetch-site"):
        return fetch_site not in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != request.headers.get("host")


def _limit_body(receive: Receive) -> Receive:
    """Limit the bytes of a body that is sent in chunks, whose length is not known beforehand."""
    remaining_bytes = MAX_BODY_BYTES

    async def receive_limited() -> Message:
        nonlocal remaining_bytes
        message = await receive()
        remaining_bytes -= len(message.get("body", b""))
        if remaining_bytes < 0:
            raise _too_large()
        return message

    return receive_limited


def _too_large() -> HTTPException:
    return HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request must not exceed {MAX_BODY_BYTES:,} bytes")
