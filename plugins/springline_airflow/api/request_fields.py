"""Strict requests: parameters and fields that a route does not know are refused, not ignored.

If a misspelt `dry_run` were ignored, the action would be executed instead of only reported.
"""

from __future__ import annotations

from fastapi import HTTPException, Request, status
from fastapi.dependencies.utils import get_flat_dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict

from springline.airflow.pages import static_files


class RequestBody(BaseModel):
    """Base class of all request bodies."""

    model_config = ConfigDict(extra="forbid")


async def refuse_unknown_fields(request: Request) -> None:
    """Refuse unknown query parameters, and a body where the route takes none.

    The models of bodies refuse unknown fields. Pages read their own parameters in the browser, so they are exempt.
    """
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    if route.path.startswith(f"{static_files.router.prefix}/"):
        return
    allowed_names = [str(field.alias) for field in get_flat_dependant(route.dependant).query_params]
    if unknown := [name for name in dict.fromkeys(request.query_params) if name not in allowed_names]:
        wrong = "; ".join(f"query.{name}: unknown parameter" for name in unknown)
        raise _refusal(f"{wrong}; known: {', '.join(allowed_names) or 'none'}")
    if route.body_field is None and (await request.body()).strip() not in (b"", b"{}"):
        raise _refusal("body: must be empty")


def _refusal(message: str) -> HTTPException:
    return HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, message)
