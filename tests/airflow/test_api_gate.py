"""The gate of the API: no request without a user gets in, whatever is sent, and hostile names lead nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from springline.airflow.api import PREFIX, access, auth_middleware
from springline.airflow.platform_context import CachedPlatform
from springline.persistence.engine.runner import NoRunner
from springline.persistence.errors import CatalogUnavailableError
from springline.persistence.model.dataset import Origin, Strategy
from springline.persistence.platform import open_platform
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.testing.lines import make_dataset as make

ROOT = f"{PREFIX}/api/v1"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND")
NOWHERE = ("", "/", "/nothing", "/docs", "/redoc", "/openapi.json", "/api/v1", "/pages", "/pages/static/..%2fviews.py")
SENT = (b"", b"{", b"[]", b"\xff", b"x" * 1000)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words_job: JobFolder) -> Iterator[None]:
    """A platform with one dataset, and the stream `words`."""
    monkeypatch.setenv("SPRINGLINE_CACHE_URI", f"file://{tmp_path}/cache")
    with closing(open_platform(runner=NoRunner())) as platform:
        make(platform, "etl/a", lines=["x"], origin=Origin("etl", "run 1", "a"), strategy=Strategy.CACHE_THROUGH)
        yield


def places(api: FastAPI) -> list[str]:
    """A path for every route, and some for none."""
    paths = []
    for route in api.routes:
        assert isinstance(route, APIRoute), f"{route} is no route that this walk knows: ask for it here too"
        names = {
            name: "2" if name == "acker" else "pin" if name == "action" else "words" for name in route.param_convertors
        }
        paths.append(route.path_format.format(**names))
    return [*dict.fromkeys(paths), *NOWHERE]


@pytest.mark.parametrize("method", METHODS)
def test_without_a_user_nothing_is_answered_whatever_is_sent(api, clients, method):
    """Neither a route nor what is none, with a body that is none either; only that a token is needed."""
    for path in places(api):
        for body in SENT:
            response = clients["nobody"].request(
                method, PREFIX + path, content=body, headers={"Content-Type": "application/json"}
            )
            assert response.status_code == 401, (method, path, body[:10])
            assert not response.content or response.json()["error"] == "Unauthorized"


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1bGxhIn0."},
        {"Authorization": "Bearer x"},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic dWxsYTp1bGxh"},
        {"Cookie": "_token=x"},
        {"Cookie": "_token="},
        {"X-Forwarded-User": "ulla", "X-Remote-User": "ulla"},
    ],
)
def test_no_other_header_makes_a_user(api, root, headers):
    """A token that Airflow did not sign, a password, somebody else's word."""
    stranger = TestClient(root, headers=headers)
    for method in ("GET", "POST", "PUT", "DELETE"):
        assert {stranger.request(method, PREFIX + path).status_code for path in places(api)} <= {401, 403}, method


def test_every_route_asks_who_it_is_and_those_that_change_who_may(api):
    """By what each declares: a route that is added without is seen here, though the gate would hold for it."""
    for route in api.routes:
        assert isinstance(route, APIRoute)
        asked, waiting = set(), [route.dependant]
        while waiting:
            each = waiting.pop()
            asked.add(each.call)
            waiting += each.dependencies
        assert auth_middleware.get_user in asked, route.path
        if "{job}" in route.path:
            reading = route.methods == {"GET"} or route.path.endswith("/ask")
            assert (access.require_job_read if reading else access.require_job_change) in asked, route.path
        elif "/pages" not in route.path and route.path not in ("/api/v1/streams", "/api/v1/openapi.json"):
            assert access.ReadAccess in asked, route.path


def test_there_is_no_websocket(clients):
    """With a user or without."""
    for client in clients.values():
        with pytest.raises(WebSocketDisconnect), client.websocket_connect(f"{ROOT}/streams"):
            pass


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://testserver"},
        {"Origin": "http://testserver:8081"},
        {"Origin": "null"},
    ],
)
def test_a_page_of_another_site_changes_nothing(ulla, words_job, api, headers):
    """Whoever is logged in, and though a stop needs no body: a form on another port could send it."""
    for path in places(api):
        assert ulla.post(PREFIX + path, headers=headers).status_code == 403, path
    read = ulla.get(f"{ROOT}/streams/words", headers=headers)
    assert read.status_code == 200 and "access-control-allow-origin" not in read.headers
    own = {"Sec-Fetch-Site": "same-origin"}, {"Origin": "http://testserver"}, {}
    assert {ulla.post(f"{ROOT}/streams/words/stop", headers=each).status_code for each in own} <= {200, 202, 204, 409}


@pytest.mark.parametrize("pieces", [False, True])
def test_more_than_a_request_may_have_is_not_read(ulla, pieces):
    """Declared in the header, or noticed while reading."""
    body = b'{"mode": "' + b"x" * auth_middleware.MAX_BODY_BYTES + b'"}'
    sent = iter([body[:1000], body[1000:]]) if pieces else body
    response = ulla.put(
        f"{ROOT}/streams/words/backpressure", content=sent, headers={"Content-Type": "application/json"}
    )  # type: ignore[arg-type]
    assert (response.status_code, "must not exceed" in response.json()["detail"]) == (413, True)


# ---- names

OUTSIDE = [
    "../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fetc%2fpasswd", "/etc/passwd", "%2fetc%2fpasswd",
    "etl/..%2fa", "etl/%00a", "etl/a%00", "etl/a%0Ab", "etl/a%5c..%5cb", "etl/a%c2%85b", "etl/a%e2%80%a8b", "etl/.a",
    "etl/_a", "etl/a@1", "etl/a*", "etl/%7Ba%7D", "hdfs:%2f%2fhost%2fa", "a" * 201, "a/" * 600 + "a",
]  # fmt: skip


@pytest.mark.parametrize("generation", ["", "?generation=1"])
@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_leads_out_is_no_dataset(vera, ulla, path, generation):
    """As it is, or percent-encoded: refused, or not found; never an error of the server's."""
    response = vera.get(f"{ROOT}/datasets/{path}{generation}")
    assert response.status_code in (404, 422), response.text
    for wish in ("pin", "recover", "evict"):
        asked = ulla.post(f"{ROOT}/datasets/{path}/{wish}", json={"generation": 1} if generation else {})
        assert asked.status_code in (404, 422), asked.text


def test_a_name_is_no_sql_and_no_pattern(vera):
    """Nothing else is found by it; what no database takes, as a zero, is refused before it is asked."""
    keys = ("search", "prefix", "dag_id")
    for text in ("etl/a' OR '1'='1", "etl/%25", "%25", "_", "etl/_", 'etl/a"; DROP TABLE generation; --'):
        assert vera.get(f"{ROOT}/datasets/{text}").status_code in (404, 422), text
        for key in keys:
            response = vera.get(f"{ROOT}/datasets?{key}={text}")
            assert (response.status_code, response.json()["datasets"]) == (200, []), (key, text)
    assert vera.get(f"{ROOT}/datasets/etl/a").status_code == 200, "the dataset is there afterwards"
    for key, value in product(keys, ("a%00", "a" * 1001)):
        response = vera.get(f"{ROOT}/datasets?{key}={value}")
        assert (response.status_code, response.json()["error"]) == (422, "BadRequestError"), key


@pytest.mark.parametrize("number", [0, -1, 10**9, 10**30, "x", "1e3", "NaN", ""])
def test_a_generation_is_a_number_that_fits(vera, ulla, number):
    """In the address and in what is sent."""
    assert vera.get(f"{ROOT}/datasets/etl/a?generation={number}").status_code == 422
    assert ulla.post(f"{ROOT}/datasets/etl/a/pin", json={"generation": number}).status_code == 422


@pytest.mark.parametrize(
    "job", ["..%2f..", "%2e%2e", "words%00", "%00", "words%2f..%2fwords", "'", "%3Cb%3E", "x" * 201]
)
def test_a_job_is_one_that_is_declared(ulla, words_job, job):
    """Another name makes no folder, and ends nothing."""
    before = sorted(words_job.path.parent.rglob("*"))
    for method, below in (("GET", ""), ("POST", "/stop"), ("GET", "/queries/a"), ("PUT", "/tracking/ackers/1")):
        assert ulla.request(method, f"{ROOT}/streams/{job}{below}").status_code in (404, 405, 422), below
    assert sorted(words_job.path.parent.rglob("*")) == before


# ---- secrets


def test_an_answer_reveals_no_secret_of_an_error(vera, monkeypatch):
    """Though the error holds one."""

    def away(self: CachedPlatform) -> None:
        raise CatalogUnavailableError("postgresql://ann:hunter2@db does not answer: password=hunter2")

    monkeypatch.setattr(CachedPlatform, "now", away)
    response = vera.get(f"{ROOT}/queue")
    assert response.status_code == 503 and "hunter2" not in response.text and "ann:***@db" in response.json()["detail"]
