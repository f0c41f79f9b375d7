"""Airflow on PostgreSQL with psycopg 3, whose errors have `sqlstate` where Airflow expects `pgcode`."""

from __future__ import annotations


def add_pgcode() -> None:
    """Add the attribute `pgcode` of psycopg 2's errors to those of psycopg 3.

    Without it, a scheduler that finds the pools locked does not recognise that error (`is_lock_not_available_error` of
    Airflow), and exits instead of retrying.
    """
    try:
        import psycopg
    except ImportError:
        return  # Airflow uses another database
    if not hasattr(psycopg.Error, "pgcode"):
        psycopg.Error.pgcode = property(lambda error: error.sqlstate)  # type: ignore[attr-defined]
