"""The app itself: puts the resources together, lets nobody in without a user, and tells its own schema."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.core_api.security import get_user
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, status
from starlette.types import ASGIApp

from springline.airflow.api import datasets, recovery
from springline.airflow.api.answer_headers import AnswerHeaders
from springline.airflow.api.auth_middleware import Gate
from springline.airflow.api.problems import PROBLEMS, tell_problems
from springline.airflow.api.request_fields import no_unknown_fields
from springline.airflow.pages import static_files
from springline.airflow.platform_context import Platforms
from springline.extras import MissingExtraError, import_late

VERSIONED = "/api/v1"


class _App(FastAPI):
    """An app whose headers are put on outside of all else: the answer to an error that nobody foresaw has them too."""

    def build_middleware_stack(self) -> ASGIApp:
        """What a request goes through."""
        return AnswerHeaders(super().build_middleware_stack())


def make_app() -> FastAPI:
    """The app, to be mounted in Airflow's; every route needs a user, whatever else it asks for.

    The gate lets nobody in without one, before anything of what was sent is looked at; each route asks again, so that
    the schema tells it.
    """
    app = _App(
        title="Springline",
        description="Datasets and their lineage, streams and their queries. Who may read or change a DAG may read or "
        "change what belongs to it: the datasets that it made, the job that it supervises.",
        version="1",
        dependencies=[Depends(get_user), Depends(no_unknown_fields)],
        responses=PROBLEMS,
        openapi_url=None, docs_url=None, redoc_url=None,  # FastAPI's own would be open to everybody
    )  # fmt: skip
    app.add_middleware(Gate)
    tell_problems(app)
    app.state.platforms = Platforms()
    app.include_router(recovery.router, prefix=VERSIONED)  # before that of datasets, which takes any other wish
    app.include_router(datasets.router, prefix=VERSIONED)
    _add_streams(app)
    app.include_router(static_files.router)

    @app.get(f"{VERSIONED}/openapi.json", include_in_schema=False)
    def schema(request: Request) -> dict[str, Any]:
        """What can be asked for, as OpenAPI."""
        return {**app.openapi(), "servers": [{"url": request.scope.get("root_path", "")}]}

    return app


_OF_STREAMS = ("streams", "tracking", "backpressure", "joins")
_PLANNERS = "springline.spark_jobs.streaming.windows.adhoc_query"


def _add_streams(app: FastAPI) -> None:
    """What can be asked of streams; where their packages are not installed, how to install them."""
    try:
        app.state.planners = import_late(_PLANNERS, "the API of streams").Planners()
        found = [import_late(f"springline.airflow.api.{name}", "the API of streams") for name in _OF_STREAMS]
    except MissingExtraError as missing:
        routers = [_without_streams(str(missing))]
    else:
        routers = [module.router for module in found]
    for router in routers:
        app.include_router(router, prefix=VERSIONED)


def _without_streams(why: str) -> APIRouter:
    """Answers whatever is asked of streams with `why`."""
    router = APIRouter(tags=["streams"], include_in_schema=False)

    @router.get("/streams{rest:path}")
    def refuse(rest: str) -> None:
        """No stream is known here."""
        raise HTTPException(status.HTTP_501_NOT_IMPLEMENTED, why)

    return router
