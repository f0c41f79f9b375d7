"""The registry is a value with a version."""

import json

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


def test_every_change_makes_the_next_version_and_leaves_the_one_before_alone() -> None:
    """Registered, changed, cancelled."""
    one = EMPTY.register("flows", COUNT)
    two = one.change("flows", OTHER)
    three = two.cancel("flows")
    assert [r.version for r in (EMPTY, one, two, three)] == [0, 1, 2, 3]
    assert (one.text("flows"), two.text("flows")) == (COUNT, OTHER)
    assert [query.since for query in two.registered] == [2]
    assert three.registered == EMPTY.registered == ()


def test_the_same_text_changes_nothing() -> None:
    """So a caller may say it twice."""
    one = EMPTY.register("flows", COUNT)
    assert one.change("flows", COUNT) is one


def test_a_query_can_be_put_whether_it_is_there_or_not() -> None:
    """It is registered, then changed; the same text again changes nothing."""
    one = EMPTY.put("flows", COUNT)
    two = one.put("flows", OTHER)
    assert (one, two) == (EMPTY.register("flows", COUNT), one.change("flows", OTHER))
    assert two.put("flows", OTHER) is two


def test_a_second_query_of_one_name_is_refused() -> None:
    """Also one of the same text; `change` is there for that."""
    with pytest.raises(QueryExistsError, match="query 'flows' is already registered: choose another name, or alter"):
        EMPTY.register("flows", COUNT).register("flows", COUNT)


def test_what_is_not_registered_can_be_neither_changed_nor_cancelled() -> None:
    """The error tells what is."""
    one = EMPTY.register("flows", COUNT)
    for attempt in (lambda: one.change("other", COUNT), lambda: one.cancel("other")):
        with pytest.raises(UnknownQueryError, match="no query is registered as 'other'; registered: flows"):
            attempt()


def test_a_query_that_cannot_be_answered_does_not_get_in() -> None:
    """Nor does it replace one that can; nor does a name that cannot be a file's."""
    one = EMPTY.register("flows", COUNT)
    with pytest.raises(InvalidQueryError):
        one.change("flows", "SELECT nothing FROM S WINDOWING 1 s")
    with pytest.raises(InvalidQueryError, match="a name is of letters"):
        one.register("a/b", COUNT)


def test_two_streams_of_one_name_are_refused() -> None:
    """And a stream that is not declared is not found."""
    with pytest.raises(InvalidStreamError, match="two streams are named S"):
        QueryRegistry.of([stream(), stream()])
    with pytest.raises(InvalidStreamError, match="no stream 'T' is declared; declared: S"):
        EMPTY.stream("T")


def test_a_registry_survives_json() -> None:
    """With its streams and versions."""
    registry = EMPTY.register("flows", COUNT).register("kinds", OTHER).cancel("flows")
    assert from_json_value(QueryRegistry, json.loads(json.dumps(to_json_value(registry))), "here") == registry


def test_a_stream_that_is_declared_otherwise_holds_from_the_next_version_on() -> None:
    """Its queries are read again; the same declaration changes nothing."""
    before = EMPTY.register("q", "SELECT count(*) AS n FROM S WINDOWING 60 s")
    assert before.with_stream(stream()) is before
    after = before.with_stream(stream(lateness=5.0))
    assert (after.version, after.registered) == (before.version + 1, before.registered)
    assert [[query.lateness for query in each.queries()] for each in (before, after)] == [[0], [5_000_000]]


def test_a_stream_that_a_query_does_not_fit_is_refused() -> None:
    """Nothing has changed then."""
    before = EMPTY.register("q", "SELECT sip, count(*) AS n FROM S GROUP BY sip WINDOWING 60 s")
    fields = tuple(field for field in stream().fields if field.name != "sip")
    with pytest.raises(InvalidQueryError, match="sip"):
        before.with_stream(stream(fields=fields))
