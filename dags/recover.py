"""Brings one dataset back to the cache: copied from the under-store, or made again by its operations.

The dataset's page asks for it; you may trigger it by hand too. A dataset that is in the cache is looked at there, and
brought back if its bytes are not whole.
"""

from datetime import datetime

from airflow.sdk import DAG, Param

from springline.airflow.operators.recover import DAG_ID, RecoverOperator
from springline.airflow.pools import FIRST, UPKEEP
from springline.airflow.retry_args import PATIENT

with DAG(
    DAG_ID,
    schedule=None,
    start_date=datetime(2013, 1, 1),
    is_paused_upon_creation=False,  # it does nothing until somebody asks
    max_active_runs=4,
    default_args={**PATIENT, "pool": UPKEEP.name, **FIRST},
    params={
        "path": Param(
            type="string", minLength=1, maxLength=1000, description="The dataset, such as etl/2013-01-05/clean"
        ),
        "generation": Param(
            None, type=["null", "integer"], minimum=1, maximum=999_999_999, description="None given: the newest"
        ),
    },
    doc_md=__doc__,
    tags=["springline"],
):
    RecoverOperator(task_id="bring_back")
