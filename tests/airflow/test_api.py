"""The API inside an app like Airflow's, with Airflow's own auth manager and tokens: who gets in, and the answers."""

from __future__ import annotations

import logging
import time
from contextlib import closing
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.routing import Route

from springline.airflow.api import PREFIX, access, streams
from springline.persistence.engine.runner import NoRunner
from springline.persistence.model.dataset import Origin, Strategy
from springline.persistence.platform import open_platform
from springline.spark_jobs.streaming.application.lag_history import FILE, LagSample, write_sample
from springline.spark_jobs.streaming.backpressure.config import DEFAULT_CONFIG, read_config
from springline.spark_jobs.streaming.errors import LogUnavailableError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import read_jobs
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from springline.spark_jobs.streaming.runtime.stage import place_stages
from springline.spark_jobs.streaming.runtime.stamps import Stamp
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.tracking.config import RING
from springline.spark_jobs.streaming.windows.registry_file import read_registry
from springline.testing.lines import make_dataset as make
from springline.testing.memory_log import MemoryLog
from tests.support.airflow.two_dags import allow_only
from tests.support.decoding.windows_job import Job, csv, registry, stream
from tests.support.streams.declared_streams import save_states

SQL = "SELECT kind, count(*) AS n, avg(load) AS load FROM ticks GROUP BY kind WINDOWING 60 s"
AD_HOC = "SELECT kind, count(*) AS n, avg(load) AS load FROM ticks GROUP BY kind"
STREAM = (
    '[{0}]\ntopic = "{0}"\n[{0}.stream]\ntime = "time"\nadhoc_retention = '
    '3600.0\nfields = {1}\n[{0}.queries]\nall = "{2}"\n'
)
FIELDS = '[["time", "timestamp(s)"], ["sip", "text"], ["kind", "text"], ["bytes", "int"], ["load", "float"]]'
T = 1_700_000_040  # 2023-11-14 22:14:00
ROOT = f"{PREFIX}/api/v1"
TICKS = f"{ROOT}/streams/ticks"
WORDS_URL = f"{ROOT}/streams/words"
PAIRS_JOIN = f"{ROOT}/streams/pairs/join"


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> MemoryLog:
    """What the API finds instead of Kafka: results of `ticks`, and a tracked job of which a record failed."""
    memory_log = MemoryLog({"ticks.results": 1, "lines": 1, "words.dead-letters": 1})
    line = b'{"query":"all","window_end":"2023-11-14T22:15:00+00:00","n":%d}\n'
    headers = {**Stamp(1, 0, 1, 0).header(), "query": b"all"}
    memory_log._append(OutgoingRecord("ticks.results", 0, line % 1 + line % 2, headers))
    place = {"topic": b"lines", "partition": b"0", "offset": b"3", "reason": b"sent 5 times"}
    memory_log._append(OutgoingRecord("words.dead-letters", 0, b"a line", place))
    monkeypatch.setattr(MemoryLog, "close", lambda self: None, raising=False)
    monkeypatch.setattr(streams, "Kafka", lambda cluster, timeout: memory_log)
    return memory_log


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words_job: JobFolder, pairs: JobFolder) -> JobFolder:
    """The folder of the job `ticks`; beside it, `words` and `pairs` is `tocks`, which was not started."""
    with (tmp_path / "streams.toml").open("a") as streams_file:
        streams_file.write("".join(STREAM.format(n, FIELDS, SQL.replace("ticks", n)) for n in JOBS))
    read_jobs(tmp_path / "streams.toml")["pairs"].prepare(pairs)
    monkeypatch.setenv("SPRINGLINE_STREAM_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("SPRINGLINE_CACHE_URI", f"file://{tmp_path}/cache")
    return JobFolder(tmp_path / "streams" / "ticks")


JOBS = ("ticks", "tocks")
BELOW = {"/tracking": "words", "/dead-letters": "words", "/join": "pairs"}  # jobs that have what not every job has


@pytest.fixture
def reducer_state(tmp_path: Path) -> None:
    """What the reducers of `ticks` hold after a round: three rows of two kinds."""
    settings = StreamSettings()
    job = Job(registry({"all": SQL}, stream(name="ticks", adhoc_retention=3600.0)), reducers=2, stream_name="ticks")
    job.round([csv((T, "x", "a", 1, 0.5), (T + 1, "y", "a", 2, 1.5), (T + 2, "x", "b", 3, None))])
    ticks = read_jobs(settings.declarations)["ticks"]
    _, reducing = place_stages("ticks", ticks.stages())
    save_states(reducing, [job.states["reduce", unit] for unit in range(2)], (1, 1), tmp_path / "scratch")


@pytest.fixture
def dataset(folder: JobFolder, read_dags: None) -> None:
    """A dataset, `etl/a`, that a DAG run made and that is persisted, in two generations."""
    with closing(open_platform(runner=NoRunner())) as platform:
        for _ in range(2):
            make(platform, "etl/a", lines=["x"], origin=Origin("etl", "run 1", "a"), strategy=Strategy.CACHE_THROUGH)


# ---- who gets in


def routes(api: FastAPI) -> list[tuple[str, str]]:
    """Method and path of every route, with the placeholders of its path."""
    assert all(isinstance(route, Route) for route in api.routes), "a part of the app that this does not walk"
    return [
        (method, route.path_format)
        for route in api.routes if isinstance(route, Route) for method in (route.methods or set()) - {"HEAD"}
    ]  # fmt: skip


def walk(api: FastAPI) -> list[tuple[str, str]]:
    """Method and path of every route, with names that are there; those that end something come last."""
    named_routes = []
    for method, path in routes(api):
        names = {"name": "all", "acker": 2, "key": "7", "path": "etl/a", "generation": 2, "action": "pin"}
        job = next((job for below, job in BELOW.items() if below in path), "ticks")
        named_routes.append((method, PREFIX + path.format(**names, job=job, page="lineage", file="page.css")))
    return sorted(named_routes, key=lambda each: (each[0] == "DELETE", each))


def reads(method: str, path: str) -> bool:
    """Whether a route only reads; what is not known to does not."""
    return method == "GET" or path.endswith("/ask")


def body(method: str, path: str) -> dict[str, object] | None:
    """What a route takes: a query that fits, no wishes, or nothing at all."""
    if path.endswith("/ask") and method == "POST":
        return {"sql": AD_HOC}
    if method == "PUT" and "/queries/" in path:
        return {"sql": SQL.replace("60 s", "120 s")}
    if path.endswith("/dead-letters/retry"):
        return {"records": ["0:0"], "dry_run": True}
    if path.endswith("/lineage/recover"):
        return {"partitions": [""], "dry_run": True}
    takes = (method == "POST" and not path.endswith("/stop")) or path.endswith("/backpressure")
    return {} if takes and method != "GET" else None


def statuses(client: TestClient, api: FastAPI) -> dict[tuple[str, str], int]:
    """What every route answers."""
    return {
        (m, path): client.request(m, path, params=query(path), json=body(m, path)).status_code for m, path in walk(api)
    }


def query(path: str) -> dict[str, str] | None:
    """The parameters without which a route answers nothing."""
    if path.endswith(("/queue/explain", "/lineage/cell")):
        return {"path": "etl/a"}
    return {"field": "dag_id"} if path.endswith("/lineage/values") else None


@pytest.mark.usefixtures("log", "reducer_state", "dataset")
def test_a_viewer_reads_everything_and_who_may_change_dags_may_do_everything(api, vera, ulla, folder, words_job):
    """A viewer changes nothing, and asking is reading; to others every route answers with a success."""
    assert {r: status for r, status in statuses(vera, api).items() if status != (200 if reads(*r) else 403)} == {}
    assert read_registry(folder) is None and not folder.stop_file.exists()
    assert not (words_job.path / RING).exists()
    assert read_config(words_job, DEFAULT_CONFIG) == DEFAULT_CONFIG
    assert {r: status for r, status in statuses(ulla, api).items() if status not in (200, 201, 202)} == {}


def test_only_those_jobs_are_there_that_the_user_may_read(vera, log, monkeypatch):
    """The others are in no list, and their routes are closed."""
    allow_only(monkeypatch, "stream_ticks")
    assert [job["job"] for job in vera.get(f"{ROOT}/streams").json()["streams"]] == ["ticks"]
    assert vera.get(f"{ROOT}/streams/ticks").status_code == 200
    refused = vera.get(f"{ROOT}/streams/tocks", headers={"X-Dag-Id": "stream_ticks"})
    assert (refused.status_code, refused.json()["detail"]) == (403, "you may not read the DAG stream_tocks")


# ---- what is asked


@pytest.mark.usefixtures("log", "reducer_state", "dataset")
@pytest.mark.parametrize("unknown", ["a parameter", "a field"])
def test_no_route_passes_over_what_it_does_not_know(unknown, api, ulla, folder, words_job):
    """It names it, and does nothing: what is misspelt may be a `dry_run`."""
    with folder.application_lock():
        for method, path in walk(api):
            if path.startswith(f"{PREFIX}/pages"):
                continue
            sent = {**(body(method, path) or {}), "dryrun": True} if unknown == "a field" else body(method, path)
            query = "?dryrun=true" if unknown == "a parameter" else ""
            response = ulla.request(method, path + query, json=sent)
            assert response.status_code == 422, (method, path, response.text)
            detail = response.json()["detail"]
            assert "dryrun: " in detail or "body: must be empty" in detail, detail
        assert read_registry(folder) is None and not folder.stop_file.exists()
    assert not (words_job.path / RING).exists()
    assert not ulla.get(f"{ROOT}/datasets/etl/a").json()["pinned"]


@pytest.mark.usefixtures("log", "reducer_state", "dataset")
def test_every_answer_forbids_to_guess_its_type_and_to_keep_it(api, clients, monkeypatch):
    """Of every route, with a login and without, of what is no route, and of an unexpected error."""
    answers = {
        (name, method, path): clients[name].request(method, path, json=body(method, path))
        for name in ("nobody", "vera", "ulla")
        for method, path in [*walk(api), ("GET", f"{ROOT}/nothing"), ("PATCH", TICKS)]
    }
    monkeypatch.setattr(streams, "read_status", lambda *_: 1 / 0)
    answers["ulla", "GET", "broken"] = broken = clients["ulla"].get(TICKS)
    assert (broken.status_code, broken.json()["error"]) == (500, "InternalServerError")
    assert "division" not in broken.text, "that is left to the log of the API server"
    for asked, answer in answers.items():
        assert answer.headers["x-content-type-options"] == "nosniff", asked
        page = asked[2].startswith(f"{PREFIX}/pages") and answer.status_code == 200
        assert answer.headers["cache-control"] == ("no-cache" if page else "no-store"), asked


# ---- what is answered


def test_a_job_lists_what_can_be_asked_of_it_and_whether_you_may_change_it(vera, ulla, log):
    """By its kind, and by its DAG; in the list as alone, and when it is stopped."""
    answers = {"ticks": ["queries"], "tocks": ["queries"], "words": ["tracking"], "pairs": ["join"]}
    for client, may_change in ((vera, False), (ulla, True)):
        listed = {job_summary["job"]: job_summary for job_summary in client.get(f"{ROOT}/streams").json()["streams"]}
        assert {job: job_summary["capabilities"] for job, job_summary in listed.items()} == answers
        for job, job_summary in listed.items():
            assert (job_summary["dag_id"], job_summary["may_change"]) == (f"stream_{job}", may_change)
            assert client.get(f"{ROOT}/streams/{job}").json() == job_summary
    assert ulla.post(f"{TICKS}/stop").json() == ulla.get(TICKS).json()


def test_the_worst_job_comes_first_with_health_reason_and_history(vera, folder, words_job):
    """As much of the history as is asked for; a job that never ran has none."""
    now = time.time()
    folder.make()
    for age in (25, 15, 5):
        write_sample(folder.path / FILE, LagSample(now - age, 40 + age, 23.0, 1_000 - 10 * age, 2e6, 3))
    with folder.application_lock():
        recorded = {"health": "lagging", "reason": "4,810 messages behind", "since": now - 42}
        folder.write_heartbeat({"state": "running", "error": "", "heartbeat_at": now, "started_at": now - 90, "pid": 1,
                                "stages": {}, "health": recorded})  # fmt: skip
        listed = vera.get(f"{ROOT}/streams", params={"history": 2}).json()["streams"]
        history = vera.get(f"{TICKS}/history").json()
    assert [(job["job"], job["health"]) for job in listed] == [
        ("words", "failed"), ("ticks", "lagging"), ("pairs", "never started"), ("tocks", "never started"),
    ]  # fmt: skip
    ticks = listed[1]
    assert (ticks["health_reason"], ticks["health_since"]) == ("4,810 messages behind", now - 42)
    assert [(point["lag"], point["rows_per_second"]) for point in ticks["history"]] == [(55, 10.0), (45, 10.0)]
    assert history["interval"] == 10 and len(history["points"]) == 3
    assert vera.get(f"{ROOT}/streams/tocks/history").json()["points"] == []


def test_a_query_is_registered_changed_and_cancelled(ulla, caplog):
    """Each is a version of its own, and the log says who it was; the same text again is no change."""
    more, place = SQL.replace("60 s", "30 s"), f"{TICKS}/queries/more"
    with caplog.at_level(logging.INFO, logger="springline.airflow.api"):
        response = [ulla.put(place, json={"sql": sql}) for sql in (SQL, more, more)]
        assert [(each.status_code, each.json()["version"]) for each in response] == [(201, 2), (200, 3), (200, 3)]
        assert ulla.get(place).json() == {"version": 3, "query": {"name": "more", "sql": more, "since": 3}}
        assert ulla.delete(place).json() == {"version": 4}
    assert [query["name"] for query in ulla.get(f"{TICKS}/queries").json()["queries"]] == ["all"]
    assert [record.getMessage() for record in caplog.records if record.name == streams.__name__] == [
        "ticks: ulla has registered the query more; version 2",
        "ticks: ulla has changed the query more; version 3",
        "ticks: ulla has cancelled the query more; version 4",
    ]


def test_an_answer_has_rows_columns_and_the_slices_that_it_covers(vera, reducer_state):
    """A number that is missing is null; the parts of a query are listed by the queries that are registered."""
    (slices,) = vera.get(f"{TICKS}/ask").json()["slices"]
    assert slices["keys"] == ["kind"] and "count(*)" in slices["aggregates"] and slices["queries"] == ["all"]
    answer = vera.post(f"{TICKS}/ask", json={"sql": AD_HOC}).json()
    assert (answer["begin"], answer["end"]) == ("2023-11-14T22:14:00+00:00", "2023-11-14T22:15:00+00:00")
    kinds = {"window_start": "timestamp", "window_end": "timestamp", "kind": "text", "n": "int", "load": "float"}
    assert {column["name"]: column["type"] for column in answer["columns"]} == kinds
    rows = {row["kind"]: (row["n"], row["load"], row["window_start"]) for row in answer["rows"]}
    assert rows == {"a": (2, 1.0, answer["begin"]), "b": (1, None, answer["begin"])}


def test_the_newest_results_come_last(vera, log):
    """So many rows as are asked for."""
    assert [row["n"] for row in vera.get(f"{TICKS}/results").json()["rows"]] == [1, 2]
    assert [row["n"] for row in vera.get(f"{TICKS}/results", params={"limit": 1}).json()["rows"]] == [2]
    assert vera.get(f"{TICKS}/results", params={"query": "other"}).json() == {"rows": []}


def test_a_job_that_runs_is_asked_to_stop(ulla, folder):
    """One that does not is left alone: it would stop at its next start."""
    assert ulla.post(f"{TICKS}/stop").json()["state"] == "never started"
    assert not folder.stop_file.exists()
    with folder.application_lock():
        assert ulla.post(f"{TICKS}/stop", json={}).status_code == 202, "a client may send JSON always"
    assert folder.stop_file.exists()


def test_the_schema_lists_every_route(api, vera):
    """And where the app is mounted."""
    schema = vera.get(f"{ROOT}/openapi.json").json()
    assert schema["servers"] == [{"url": PREFIX}]
    described = {(method.upper(), path) for path, each in schema["paths"].items() for method in each}
    pages = {route for route in routes(api) if route[1].startswith("/pages")}
    assert described == set(routes(api)) - pages - {("GET", "/api/v1/openapi.json")} and len(described) > 15


# ---- what is wrong


def test_every_error_has_one_shape_and_says_what_is_wrong(ulla, words_job, monkeypatch):
    """Unknown names, wrong SQL with its place, a body or a number that does not fit, a job without a round.

    What is no key of a join is refused with the type of its column; all stages of a job run in one application, whose
    signals need no channel. The error of an unknown job lists those that one may read: names of others are theirs.
    """

    class Away:
        def offset_bounds(self, topic: str) -> None:
            raise LogUnavailableError(f"{topic}: away")

        def close(self) -> None: ...

    monkeypatch.setattr(streams, "Kafka", lambda cluster, timeout: Away())
    wrong = {"sql": "SELECT kind,\n nothing FROM ticks GROUP BY kind WINDOWING 60 s"}
    for method, path, sent, expected, place in (
        ("GET", f"{ROOT}/streams/other", None, (404, "UnknownJobError", "no job 'other'"), (None, None)),
        ("GET", f"{TICKS}/queries/other", None, (404, "UnknownQueryError", "is registered as 'other'"), (None, None)),
        ("DELETE", f"{TICKS}/queries/other", None, (404, "UnknownQueryError", "registered: all"), (None, None)),
        ("PUT", f"{TICKS}/queries/all", wrong, (422, "InvalidQueryError", "nothing"), (2, 2)),
        ("PUT", f"{TICKS}/queries/a b", {"sql": SQL}, (422, "InvalidQueryError", "a name is of letters"), (None, None)),
        ("PUT", f"{TICKS}/queries/all", {"text": SQL}, (422, "BadRequestError", "body.sql: Field"), (None, None)),
        ("POST", f"{TICKS}/ask", wrong, (422, "InvalidQueryError", "nothing"), (2, 2)),
        ("POST", f"{TICKS}/ask", {"sql": AD_HOC}, (409, "MissingStateError", "has not completed a"), (None, None)),
        ("GET", f"{TICKS}/results?limit=0", None, (422, "BadRequestError", "query.limit"), (None, None)),
        ("GET", f"{TICKS}/results", None, (503, "LogUnavailableError", "ticks.results: away"), (None, None)),
        ("PUT", f"{WORDS_URL}/backpressure", {"mode": "sometimes"},
         (422, "ExtensionError", "installed: off, predictive, stepwise; "), (None, None)),
        ("PUT", f"{WORDS_URL}/backpressure", {"signal_channel": "zookeeper"}, (422, "InvalidChannelError", ""),
         (None, None)),
        ("GET", f"{WORDS_URL}/join", None, (404, "UnknownJobError", "words: it is not a join"), (None, None)),
        ("GET", f"{ROOT}/streams/other/join", None, (404, "UnknownJobError", "no job 'other'"), (None, None)),
        ("GET", f"{PAIRS_JOIN}?limit=-1", None, (422, "BadRequestError", "query.limit"), (None, None)),
        ("GET", f"{PAIRS_JOIN}/keys/x", None,
         (422, "InvalidKeyError", "'x' is no value of the column k, which has the type int"), (None, None)),
        ("GET", f"{PAIRS_JOIN}/keys/1.5", None, (422, "InvalidKeyError", "is no value of the column k"), (None, None)),
        ("GET", f"{PAIRS_JOIN}/keys/{2**64}?encoded=true", None,
         (422, "InvalidKeyError", "is no 64-bit integer"), (None, None)),
        ("GET", f"{PAIRS_JOIN}/keys/1?side=middle", None, (422, "BadRequestError", "query.side"), (None, None)),
        ("GET", f"{ROOT}/nothing", None, (404, "NotFound", "Not Found"), (None, None)),
        ("PATCH", TICKS, None, (405, "MethodNotAllowed", "Method Not Allowed"), (None, None)),
    ):  # fmt: skip
        answer = ulla.request(method, path, json=sent)
        problem = answer.json()
        assert set(problem) == {"error", "detail", "line", "column"}, path
        assert (answer.status_code, problem["error"], problem["line"], problem["column"]) == (*expected[:2], *place), (
            problem
        )
        assert expected[2] in problem["detail"]
    assert read_config(words_job, DEFAULT_CONFIG) == DEFAULT_CONFIG
    detail = ulla.get(f"{ROOT}/streams/tickz").json()["detail"]
    assert detail.endswith("; declared: words, pairs, ticks, tocks")
    monkeypatch.setattr(access, "readable_jobs", lambda user, jobs: [job for job in jobs if job == "ticks"])
    assert ulla.get(f"{ROOT}/streams/tickz").json()["detail"].endswith("; declared: ticks")
