"""What the API declares of answers and of errors, as plain values."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from springline.airflow.api.problems import Problem, problem_of, status_of
from springline.airflow.api.schemas import AdhocAnswer, adhoc_answer_json
from springline.spark_jobs.streaming.errors import CorruptStateError, LogUnavailableError, StreamError
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.windows.adhoc import Answer
from springline.spark_jobs.streaming.windows.errors import UnknownQueryError
from springline.spark_jobs.streaming.windows.multi_query import cubes_of
from tests.support.decoding.windows_job import registry

QUERIES = {"all": "SELECT kind, count(*) FROM S GROUP BY kind WINDOWING 60 s"}


def answer(begin: int | None, end: int | None, **columns: pa.Array) -> Answer:
    """An answer of those columns."""
    of = registry(QUERIES)
    (cube,) = cubes_of(of.queries(), of.streams[0])
    return Answer(pa.table(columns), cube, begin, end)


def test_an_answer_is_reported_in_values_that_json_has() -> None:
    """Numbers that it lacks are texts, as in results; times are those of UTC; an answer from nothing covers nothing."""
    time = pa.array([1_000_001, None, None], pa.timestamp("us", tz="UTC"))
    numbers = pa.array([0.5, float("nan"), float("inf")])
    body = adhoc_answer_json(answer(0, 2_000_000, t=time, f=numbers, s=["ä", None, "c"]))
    assert json.loads(json.dumps(body, allow_nan=False)) == body
    assert body["columns"] == [{"name": n, "type": t} for n, t in (("t", "timestamp"), ("f", "float"), ("s", "text"))]
    assert body["rows"] == [
        {"t": "1970-01-01T00:00:01.000001+00:00", "f": 0.5, "s": "ä"},
        {"t": None, "f": "NaN", "s": None},
        {"t": None, "f": "Infinity", "s": "c"},
    ]
    assert AdhocAnswer.model_validate(body).end == datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)
    body = adhoc_answer_json(answer(None, None, n=pa.array([], pa.int64())))
    assert body == {"columns": [{"name": "n", "type": "int"}], "rows": [], "begin": None, "end": None}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnknownQueryError("x"), 404),
        (InvalidQueryError("x", "y"), 422),
        (LogUnavailableError("x"), 503),
        (CorruptStateError("x"), 500),
    ],
)
def test_what_an_error_is_answered_with_follows_from_its_kind(error: StreamError, status: int) -> None:
    """What is not the client's fault is the server's."""
    assert status_of(error) == status
    assert problem_of(error).error == type(error).__name__


def test_a_problem_says_what_is_wrong_and_where() -> None:
    """In SQL by line and column, in a request by the field."""
    problem = problem_of(InvalidQueryError("q", "no such column", line=2, column=3))
    assert problem == Problem(
        error="InvalidQueryError", detail="query 'q', line 2, column 3: no such column", line=2, column=3
    )
    fields = [{"loc": ("body", "sql"), "msg": "missing"}, {"loc": ("query", "last"), "msg": "too small"}]
    assert problem_of(RequestValidationError(fields)).detail == "body.sql: missing; query.last: too small"
    assert problem_of(HTTPException(403, "you may not")) == Problem(error="Forbidden", detail="you may not")
    assert "secret" not in problem_of(ZeroDivisionError("secret")).detail
