"""What a request may hold: nothing that its route does not know is passed over, since it may be what was meant most.

A misspelt `dry_run` that is passed over has done what should only have been told.
"""

from __future__ import annotations

from fastapi import HTTPException, Request, status
from fastapi.dependencies.utils import get_flat_dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict

from springline.airflow.pages import static_files


class RequestBody(BaseModel):
    """What every route that takes a body takes as one."""

    model_config = ConfigDict(extra="forbid")


async def no_unknown_fields(request: Request) -> None:
    """Refuse parameters that the route does not have, and a body where it has none; the models of bodies do the rest.

    Pages read their own parameters in the browser.
    """
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    if route.path.startswith(f"{static_files.router.prefix}/"):
        return
    known = [str(field.alias) for field in get_flat_dependant(route.dependant).query_params]
    if unknown := [name for name in dict.fromkeys(request.query_params) if name not in known]:
        wrong = "; ".join(f"query.{name}: not known here" for name in unknown)
        raise _refusal(f"{wrong}; known: {', '.join(known) or 'none'}")
    if route.body_field is None and (await request.body()).strip() not in (b"", b"{}"):
        raise _refusal("body: not known here; nothing needs to be sent")


def _refusal(words: str) -> HTTPException:
    return HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, words)
