"""The gate before all routes: nobody passes without a user, nothing of another site, too large, or by a websocket.

Who opens a page without a login is sent to Airflow's, and back from there, as Airflow's own pages do it.
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

MOST = 256 << 10  # bytes of a request's body; the longest query is 20,000 letters
_READING = ("GET", "HEAD", "OPTIONS")


class Gate:
    """Asks Airflow who it is before FastAPI reads a body, which it would do for anybody."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "there are no websockets here"})
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
            if request.method not in _READING and _of_another_site(request):
                raise HTTPException(HTTPStatus.FORBIDDEN, "a page of another site may change nothing here")
            if int(request.headers.get("content-length") or 0) > MOST:
                raise _too_large()
        except HTTPException as error:
            await JSONResponse(problem_of(error).model_dump(), error.status_code, error.headers)(scope, receive, send)
            return
        await self._app(scope, _limited(receive), send)


def _opens_page(request: Request) -> bool:
    """Whether a browser asks for something to show, rather than a page for what it is made of."""
    path = request.url.path.removeprefix(_root(request) + PREFIX)
    wants = request.headers.get("accept", "")
    return request.method in _READING and path.startswith("/pages/") and "text/html" in wants


def _to_login(request: Request) -> Response:
    back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"{_root(request)}/api/v2/auth/login?{urlencode({'next': back})}", HTTPStatus.SEE_OTHER)


def _root(request: Request) -> str:
    """Where Airflow is, below its host."""
    return str(request.scope.get("root_path", "")).removesuffix(PREFIX)


def _of_another_site(request: Request) -> bool:
    """Whether a browser sends this for a page that is not Airflow's: it sends the login along, to other ports too."""
    if told := request.headers.get("sec-fetch-site"):
        return told not in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != request.headers.get("host")


def _limited(receive: Receive) -> Receive:
    """What is sent in pieces has no length beforehand."""
    left = MOST

    async def limited() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise _too_large()
        return message

    return limited


def _too_large() -> HTTPException:
    return HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request has {MOST:,} bytes at most")
