"""One Airflow task = one registered operation on generations of datasets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from springline.airflow.openlineage import operator_lineage
from springline.airflow.platform_context import opened
from springline.airflow.runs import origin_of
from springline.persistence.errors import IrrecoverableError
from springline.persistence.model.dataset import Dataset, Strategy
from springline.spark_jobs.errors import FaultyOperationError, ParameterError, QualityError
from springline.spark_jobs.operations import RegisteredOperation

Produce = Callable[..., Dataset]
OpenPlatform = Callable[[str], AbstractContextManager[Any]]

# A run may be given its day as a parameter. Else it is the one that its data interval begins on, so that a daily run
# reads a day that is over; where the interval has no length, as under `@daily`, that is the logical date's.
_INTERVAL = "data_interval_start.strftime('%Y-%m-%d') if data_interval_start is defined and data_interval_start"
_DAY = f"{{{{ params.get('ds') or ({_INTERVAL} else '') }}}}"
_STRATEGY = f"{{{{ params.get('strategy') or '{Strategy.ASYNC_AND_SYNC}' }}}}"


def _produce(*args: Any, **kwargs: Any) -> Dataset:
    from springline.spark_jobs.materialize import produce  # takes Spark with it: only when a task runs

    made: Dataset = produce(*args, **kwargs)
    return made


class DatasetOperator(BaseOperator):
    """Makes the next generation of an operation's output; a retry adopts what its failed try committed.

    The DAG need not have any parameters: the day is that of the run's data interval, the strategy Async&Sync, and
    options are those of the settings, else of their declaration. Its inlets and outlets are the path templates of the
    operation, as Airflow assets. What it returns (and thus its XCom) tells which generation was made, and the report
    of the quality gate if there is one.
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
        options: Collection[str] = (),
        strategy: str = _STRATEGY,
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
        self.options = tuple(options)
        self._open_platform = open_platform
        self._produce = produce
        self._made: Dataset | None = None

    @classmethod
    def of(cls, operation: RegisteredOperation, **kwargs: Any) -> DatasetOperator:
        """The task of a registered operation; its parameters are the DAG run's of the same names, if it has them."""
        kwargs.setdefault("doc_md", f"{operation.doc}\n\nMakes `{operation.output}`.")
        return cls(
            operation=operation.name,
            sources=tuple(operation.sources.values()),
            output=operation.output,
            parameters={name: _DAY if name == "ds" else _parameter(name) for name in operation.parameters},
            options=tuple(operation.options),
            **kwargs,
        )

    def execute(self, context: Any) -> dict[str, Any]:
        """Make the generation, or find that a failed try made it."""
        given = {name: value for name, value in self.parameters.items() if value or name not in self.options}
        if empty := [name for name, value in given.items() if not value]:
            raise AirflowFailException(f"{self.operation}: no value for {', '.join(empty)}. {_remedy(empty)}")
        strategy = _strategy(self.strategy)
        origin = origin_of(context["dag_run"], self.task_id)
        with self._open_platform(f"task {origin.dag_id}.{self.task_id}") as platform:
            try:
                dataset = self._produce(platform, self.operation, given, origin=origin, strategy=strategy)
            except QualityError as stop:
                context["ti"].xcom_push("quality_report", dict(stop.report))
                raise AirflowFailException(str(stop)) from stop
            except (ParameterError, FaultyOperationError, IrrecoverableError) as hopeless:
                raise AirflowFailException(str(hopeless)) from hopeless
        self._made = dataset
        told = describe(dataset)
        for asset in self.outlets:
            context["outlet_events"][asset].extra = told
        self.log.info("Made %(dataset)s: %(rows)s rows, %(bytes)s bytes, %(status)s.", told)
        return told

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """What Airflow's provider for OpenLineage tells of the task: the generations that it read and made."""
        return operator_lineage(self._made)


def asset_of(template: str) -> Asset:
    """The Airflow asset that stands for the datasets of a path template."""
    return Asset(name=template, uri=f"springline://{template}")


def _parameter(name: str) -> str:
    return f"{{{{ params.get('{name}') or '' }}}}"


def _remedy(empty: Sequence[str]) -> str:
    if "ds" in empty:
        return "This DAG run has no logical date: give the day as the parameter `ds` when it is triggered."
    return "Give it when the DAG run is triggered, or as `params` of the DAG."


def _strategy(named: str) -> Strategy:
    """The strategy of this name; one that there is not is wrong at every try."""
    try:
        return Strategy(named)
    except ValueError:
        known = ", ".join(Strategy)
        raise AirflowFailException(f"no strategy is called {named!r}: give one of {known}") from None


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
