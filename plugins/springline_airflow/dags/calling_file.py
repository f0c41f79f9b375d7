"""Sets the file of a DAG that a function made."""

from __future__ import annotations

import sys

from airflow.sdk import DAG


def as_of_caller(dag: DAG) -> DAG:
    """Return `dag`, with the file that called the caller of this function as its `fileloc`.

    Airflow uses the file in which `DAG(…)` is written: it would show the code of this package, and look for the DAG
    there.
    """
    dag.fileloc = sys._getframe(2).f_code.co_filename
    return dag
