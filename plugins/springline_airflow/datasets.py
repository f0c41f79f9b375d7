"""One Airflow task = one registered operation on generations of datasets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from persistence.errors import Irrecoverable
from persistence.model import Dataset, Strategy
from spark_jobs.errors import BadParameter, FaultyOperation, QualityStop
from spark_jobs.operations import RegisteredOperation
from springline_airflow.opening import opened
from springline_airflow.runs import origin_of

Produce = Callable[..., Dataset]
OpenPlatform = Callable[[str], AbstractContextManager[Any]]

# A run without a logical date gives the day as a parameter; a run with one may be told another day too.
_TEMPLATES = {"ds": "{{ params.ds or (ds if ds is defined else '') }}"}


def _produce(*args: Any, **kwargs: Any) -> Dataset:
    from spark_jobs.produce import produce  # takes Spark with it: only when a task runs

    made: Dataset = produce(*args, **kwargs)
    return made


class DatasetOperator(BaseOperator):
    """Makes the next generation of an operation's output; a retry adopts what its failed try committed.

    Its inlets and outlets are the path templates of the operation, as Airflow assets. What it returns
    (and thus its XCom) tells which generation was made, and the report of the quality gate if there is one.
    """

    template_fields: Sequence[str] = ("parameters", "strategy")
    ui_color = "#e8f4ea"

    def __init__(
        self,
        *,
        operation: str,
        sources: Sequence[str],
        output: str,
        parameters: Mapping[str, str],
        strategy: str = "{{ params.strategy }}",
        open_platform: OpenPlatform = opened,
        produce: Produce = _produce,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("inlets", [asset_of(source) for source in sources])
        kwargs.setdefault("outlets", [asset_of(output)])
        super().__init__(**kwargs)
        self.operation = operation
        self.strategy = strategy
        self.parameters = dict(parameters)
        self._open_platform = open_platform
        self._produce = produce

    @classmethod
    def of(cls, operation: RegisteredOperation, **kwargs: Any) -> DatasetOperator:
        """The task of a registered operation; its parameters are the DAG run's parameters of the same names."""
        kwargs.setdefault("doc_md", f"{operation.doc}\n\nMakes `{operation.output}`.")
        return cls(
            operation=operation.name,
            sources=tuple(operation.sources.values()),
            output=operation.output,
            parameters={name: _TEMPLATES.get(name, f"{{{{ params.{name} }}}}") for name in operation.parameters},
            **kwargs,
        )

    def execute(self, context: Any) -> dict[str, Any]:
        """Make the generation, or find that a failed try made it."""
        if empty := [name for name, value in self.parameters.items() if not value]:
            raise AirflowFailException(
                f"{self.operation}: no value for {', '.join(empty)}. This DAG run has no logical date:"
                " give the day as the parameter `ds` when it is triggered."
            )
        origin = origin_of(context["dag_run"], self.task_id)
        with self._open_platform(f"task {origin.dag_id}.{self.task_id}") as platform:
            try:
                dataset = self._produce(
                    platform, self.operation, self.parameters, origin=origin, strategy=Strategy(self.strategy)
                )
            except QualityStop as stop:
                context["ti"].xcom_push("quality_report", dict(stop.report))
                raise AirflowFailException(str(stop)) from stop
            except (BadParameter, FaultyOperation, Irrecoverable) as hopeless:
                raise AirflowFailException(str(hopeless)) from hopeless
        told = describe(dataset)
        for asset in self.outlets:
            context["outlet_events"][asset].extra = told
        self.log.info("Made %(dataset)s: %(rows)s rows, %(bytes)s bytes, %(status)s.", told)
        return told


def asset_of(template: str) -> Asset:
    """The Airflow asset that stands for the datasets of a path template."""
    return Asset(name=template, uri=f"springline://{template}")


def describe(dataset: Dataset) -> dict[str, Any]:
    """What a person wants to know of a generation from the page of its DAG run, in plain values."""
    told: dict[str, Any] = {
        "dataset": str(dataset.ref),
        "status": str(dataset.status()),
        "rows": dataset.rows,
        "bytes": dataset.bytes,
        "seconds": dataset.made_seconds,
        "digest": dataset.digest,
        "operation": f"{dataset.call.name} {dataset.call.version}" if dataset.call else "",
        "sources": [str(ref) for ref in dataset.sources],
    }
    if dataset.report:
        told["quality_report"] = dict(dataset.report)
    return told
