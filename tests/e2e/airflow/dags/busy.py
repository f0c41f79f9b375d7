"""A DAG of the tests: its tasks take every slot of the default pool until a file is there."""

import time
from datetime import datetime
from pathlib import Path

from airflow.sdk import DAG, BaseOperator


class Waits(BaseOperator):
    """Runs until the file exists."""

    template_fields = ("file",)

    def __init__(self, *, file, **kwargs):
        super().__init__(**kwargs)
        self.file = file

    def execute(self, context):
        while not Path(self.file).exists():
            time.sleep(0.1)


with DAG("busy", schedule=None, start_date=datetime(2013, 1, 1), params={"until": ""}):
    for number in range(5):
        Waits(task_id=f"waits_{number}", file="{{ params.until }}")
