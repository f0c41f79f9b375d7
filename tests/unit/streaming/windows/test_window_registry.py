"""The registry is a value with a version."""

import json
from collections.abc import Callable

import pytest

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.sources.errors import InvalidStreamError
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.windows.errors import QueryExistsError, UnknownQueryError
from springline.spark_jobs.streaming.windows.registry import QueryRegistry
from tests.support.decoding.windows_job import stream

COUNT = "SELECT sip, count(*) FROM S GROUP BY sip WINDOWING 60 s"
OTHER = "SELECT kind, count(*) FROM S GROUP BY kind WINDOWING 60 s"
EMPTY = QueryRegistry.of([stream()])
ONE = EMPTY.register("flows", COUNT)
WITHOUT_SIP = tuple(field for field in stream().fields if field.name != "sip")


def test_every_change_makes_the_next_version_and_leaves_the_one_before_alone() -> None:
    """Registered, changed, cancelled."""
    two = ONE.change("flows", OTHER)
    three = two.cancel("flows")
    assert [r.version for r in (EMPTY, ONE, two, three)] == [0, 1, 2, 3]
    assert (ONE.text("flows"), two.text("flows")) == (COUNT, OTHER)
    assert [query.since for query in two.registered] == [2]
    assert three.registered == EMPTY.registered == ()


def test_a_query_can_be_put_whether_it_is_there_or_not() -> None:
    """It is registered, then changed; the same text again changes nothing."""
    one = EMPTY.put("flows", COUNT)
    two = one.put("flows", OTHER)
    assert (one, two) == (ONE, one.change("flows", OTHER))
    assert two.put("flows", OTHER) is two and ONE.change("flows", COUNT) is ONE


NOT_REGISTERED = "no query is registered as 'other'; registered: flows"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda: ONE.register("flows", COUNT), QueryExistsError, "'flows' is already registered: choose another name"),
        (lambda: ONE.change("other", COUNT), UnknownQueryError, NOT_REGISTERED),
        (lambda: ONE.cancel("other"), UnknownQueryError, NOT_REGISTERED),
        (lambda: ONE.change("flows", "SELECT nothing FROM S WINDOWING 1 s"), InvalidQueryError, "nothing"),
        (lambda: ONE.register("a/b", COUNT), InvalidQueryError, "a name is of letters"),
        (lambda: ONE.with_stream(stream(fields=WITHOUT_SIP)), InvalidQueryError, "sip"),
        (lambda: QueryRegistry.of([stream(), stream()]), InvalidStreamError, "two streams are named S"),
        (lambda: ONE.stream("T"), InvalidStreamError, "no stream 'T' is declared; declared: S"),
    ],
)
def test_an_impossible_change_is_refused(change: Callable[[], object], error: type[Exception], message: str) -> None:
    """With what is registered or declared: a name is taken once, and what remains can be answered."""
    with pytest.raises(error, match=message):
        change()


def test_a_registry_survives_json() -> None:
    """With its streams and versions."""
    changed = ONE.with_stream(stream(format="json", max_future_skew=5.0))
    registry = changed.register("kinds", OTHER).cancel("flows")
    assert from_json_value(QueryRegistry, json.loads(json.dumps(to_json_value(registry))), "here") == registry


def test_a_stream_that_is_declared_otherwise_holds_from_the_next_version_on() -> None:
    """Its queries are read again; the same declaration changes nothing."""
    before = EMPTY.register("q", "SELECT count(*) AS n FROM S WINDOWING 60 s")
    assert before.with_stream(stream()) is before
    after = before.with_stream(stream(lateness=5.0))
    assert (after.version, after.registered) == (before.version + 1, before.registered)
    assert [[query.lateness for query in each.queries()] for each in (before, after)] == [[0], [5_000_000]]
