"""Error responses of the API: one shape for all, with the message of the error."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from springline.airflow.content.errors import NoCopyError, UnreadableContentError
from springline.persistence.errors import (
    CatalogUnavailableError,
    ExtensionError,
    InvalidPathError,
    PersistenceError,
    StorageUnavailableError,
    TransitionError,
    UnknownDatasetError,
)
from springline.persistence.text.redaction import redact_secrets
from springline.spark_jobs.streaming.errors import (
    InvalidChannelError,
    LogUnavailableError,
    MissingStateError,
    RecordRefusedError,
    StreamError,
    UnknownJobError,
    UnknownTopicError,
)
from springline.spark_jobs.streaming.join.errors import InvalidKeyError, NeverBalancedError
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.tracking.completeness import NotTrackedError
from springline.spark_jobs.streaming.tracking.errors import InvalidRingError, RetryRefusedError, UnknownFailureError
from springline.spark_jobs.streaming.windows.errors import UnknownQueryError

_KnownError = StreamError | PersistenceError
_STATUS: dict[type[_KnownError], HTTPStatus] = {
    UnknownJobError: HTTPStatus.NOT_FOUND,
    UnknownQueryError: HTTPStatus.NOT_FOUND,
    UnknownTopicError: HTTPStatus.NOT_FOUND,  # topic of results or dead letters: the job never ran
    MissingStateError: HTTPStatus.CONFLICT,  # the job has not run a round
    NotTrackedError: HTTPStatus.CONFLICT,  # the same
    NeverBalancedError: HTTPStatus.CONFLICT,
    InvalidRingError: HTTPStatus.CONFLICT,
    UnknownFailureError: HTTPStatus.NOT_FOUND,
    RetryRefusedError: HTTPStatus.CONFLICT,
    RecordRefusedError: HTTPStatus.CONFLICT,
    InvalidQueryError: HTTPStatus.UNPROCESSABLE_ENTITY,
    InvalidKeyError: HTTPStatus.UNPROCESSABLE_ENTITY,
    ExtensionError: HTTPStatus.UNPROCESSABLE_ENTITY,
    InvalidChannelError: HTTPStatus.UNPROCESSABLE_ENTITY,
    LogUnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
    UnknownDatasetError: HTTPStatus.NOT_FOUND,
    TransitionError: HTTPStatus.CONFLICT,
    NoCopyError: HTTPStatus.CONFLICT,
    UnreadableContentError: HTTPStatus.UNPROCESSABLE_ENTITY,
    InvalidPathError: HTTPStatus.UNPROCESSABLE_ENTITY,
    CatalogUnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
    StorageUnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
}


class Problem(BaseModel):
    """An error: its name, its message, and for SQL the position, counted from 1, if it is known."""

    error: str = Field(examples=["InvalidQueryError"])
    detail: str
    line: int | None = None
    column: int | None = None


PROBLEMS: dict[int | str, dict[str, Any]] = {
    int(status): {"model": Problem, "description": status.phrase}
    for status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, *dict.fromkeys(_STATUS.values()))
}


def status_of(error: _KnownError) -> HTTPStatus:
    """Return the HTTP status of an error; an error that is not the client's fault is a server error (500)."""
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), HTTPStatus(500))


def problem_of(error: Exception) -> Problem:
    """Return the response to an error; for an unexpected one, no details."""
    if isinstance(error, InvalidQueryError):
        return Problem(
            error="InvalidQueryError", detail=redact_secrets(str(error)), line=error.line, column=error.column
        )
    if isinstance(error, _KnownError):
        return Problem(error=type(error).__name__, detail=redact_secrets(str(error)))
    if isinstance(error, HTTPException):
        return Problem(error=HTTPStatus(error.status_code).phrase.replace(" ", ""), detail=str(error.detail))
    if isinstance(error, RequestValidationError):
        wrong = (f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in error.errors())
        return Problem(error="BadRequestError", detail="; ".join(wrong))
    return Problem(error="InternalServerError", detail="internal error; see the log of the API server")


def add_problem_handlers(app: FastAPI) -> None:
    """Make the app respond to every error with a `Problem`."""

    async def answer_problem(request: Request, error: Exception) -> JSONResponse:
        status, headers = 500, None
        if isinstance(error, _KnownError):
            status = int(status_of(error))
        elif isinstance(error, HTTPException):
            status, headers = error.status_code, error.headers
        elif isinstance(error, RequestValidationError):
            status = 422
        return JSONResponse(problem_of(error).model_dump(), status, headers)

    for kind in (StreamError, PersistenceError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, answer_problem)
