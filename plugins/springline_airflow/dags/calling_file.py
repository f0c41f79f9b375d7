"""Whose file a DAG is, where a function made it."""

from __future__ import annotations

import sys

from airflow.sdk import DAG


def as_of_caller(dag: DAG) -> DAG:
    """`dag`, as one of the file that called the function which calls this one.

    Airflow takes the file in which `DAG(…)` stands: it would show the code of this package, and look for it there.
    """
    dag.fileloc = sys._getframe(2).f_code.co_filename
    return dag
