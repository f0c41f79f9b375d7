"""The FastAPI app: combines the routers, requires a user for every request, and serves its OpenAPI schema."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.core_api.security import get_user
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, status
from starlette.types import ASGIApp

from springline.airflow.api import datasets, generations, lineage, queue, recovery, risk
from springline.airflow.api.auth_middleware import AuthMiddleware
from springline.airflow.api.problems import PROBLEMS, add_problem_handlers
from springline.airflow.api.request_fields import refuse_unknown_fields
from springline.airflow.api.response_headers import ResponseHeaders
from springline.airflow.lineage.live_index import IndexCache
from springline.airflow.pages import static_files
from springline.airflow.platform_context import CachedPlatform
from springline.extras import MissingExtraError, import_lazily

VERSION_PREFIX = "/api/v1"


class _App(FastAPI):
    """An app that adds its headers outside of all other middleware: responses to unexpected errors have them too."""

    def build_middleware_stack(self) -> ASGIApp:
        """Return the middleware stack, with `ResponseHeaders` outermost."""
        return ResponseHeaders(super().build_middleware_stack())


def make_app() -> FastAPI:
    """Return the app, to be mounted in Airflow's; every route requires a user and checks permissions.

    `AuthMiddleware` refuses requests without a user before it reads anything that was sent; each route declares the
    same dependency, so that the schema shows it.
    """
    app = _App(
        title="Springline",
        description="Datasets and their lineage, streams and their queries. Users who may read or edit a DAG may "
        "read or change the datasets that it made and the job that it supervises.",
        version="1",
        dependencies=[Depends(get_user), Depends(refuse_unknown_fields)],
        responses=PROBLEMS,
        openapi_url=None, docs_url=None, redoc_url=None,  # FastAPI's own would be public
    )  # fmt: skip
    app.add_middleware(AuthMiddleware)
    add_problem_handlers(app)
    app.state.platforms = CachedPlatform()
    app.state.indexes = IndexCache()
    app.include_router(recovery.router, prefix=VERSION_PREFIX)  # before datasets, which matches any action
    app.include_router(generations.router, prefix=VERSION_PREFIX)  # before the details of any path
    app.include_router(datasets.router, prefix=VERSION_PREFIX)
    for module in (lineage, queue, risk):
        app.include_router(module.router, prefix=VERSION_PREFIX)
    _add_streams(app)
    app.include_router(static_files.router)

    @app.get(f"{VERSION_PREFIX}/openapi.json", include_in_schema=False)
    def schema(request: Request) -> dict[str, Any]:
        """Return the OpenAPI schema of the API."""
        return {**app.openapi(), "servers": [{"url": request.scope.get("root_path", "")}]}

    return app


_STREAM_MODULES = ("streams", "dead_letters", "tracking", "backpressure", "joins")
_PLANNERS = "springline.spark_jobs.streaming.windows.adhoc_query"


def _add_streams(app: FastAPI) -> None:
    """Add the routes of streams; if their packages are not installed, add routes that say how to install them."""
    try:
        app.state.planners = import_lazily(_PLANNERS, "the API of streams").AdHocPlannerCache()
        modules = [import_lazily(f"springline.airflow.api.{name}", "the API of streams") for name in _STREAM_MODULES]
    except MissingExtraError as missing:
        routers = [_not_installed_router(str(missing))]
    else:
        routers = [module.router for module in modules]
    for router in routers:
        app.include_router(router, prefix=VERSION_PREFIX)


def _not_installed_router(reason: str) -> APIRouter:
    """Return a router that refuses every request about streams with `reason`."""
    router = APIRouter(tags=["streams"], include_in_schema=False)

    @router.get("/streams{rest:path}")
    def refuse(rest: str) -> None:
        """Raise `HTTPException` (501)."""
        raise HTTPException(status.HTTP_501_NOT_IMPLEMENTED, reason)

    return router
