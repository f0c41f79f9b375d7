"""Airflow on PostgreSQL with psycopg 3, whose errors have as `sqlstate` what Airflow looks for as `pgcode`."""

from __future__ import annotations


def name_codes() -> None:
    """Let errors of psycopg 3 tell their code as those of psycopg 2 do.

    Else a scheduler that finds the pools locked does not know that error (`is_lock_not_available_error` of Airflow),
    and ends instead of trying again.
    """
    try:
        import psycopg
    except ImportError:
        return  # then Airflow is on another database
    if not hasattr(psycopg.Error, "pgcode"):
        psycopg.Error.pgcode = property(lambda error: error.sqlstate)  # type: ignore[attr-defined]
