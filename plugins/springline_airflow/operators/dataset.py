"""Airflow operator for datasets: one task runs one registered operation on generations of datasets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from springline.airflow.openlineage import operator_lineage
from springline.airflow.platform_context import platform_session
from springline.airflow.runs import origin_of
from springline.persistence.errors import IrrecoverableError
from springline.persistence.model.dataset import Dataset, Strategy
from springline.spark_jobs.errors import FaultyOperationError, ParameterError, QualityError
from springline.spark_jobs.operations import RegisteredOperation

Materialize = Callable[..., Dataset]
OpenPlatform = Callable[[str], AbstractContextManager[Any]]

# A run may get its day as a parameter. Otherwise it is the day on which its data interval begins, so that a daily run
# reads a day that is over; if the interval is empty, as with `@daily`, that is the day of the logical date.
_DAY = "{{ params.get('ds') or task.day_of_interval(data_interval_start | default(none)) }}"
_STRATEGY = f"{{{{ params.get('strategy') or '{Strategy.ASYNC_AND_SYNC}' }}}}"


def _materialize(*args: Any, **kwargs: Any) -> Dataset:
    from springline.spark_jobs.materialize import materialize  # imports Spark: only when a task runs

    dataset: Dataset = materialize(*args, **kwargs)
    return dataset


class DatasetOperator(BaseOperator):
    """Writes the next generation of an operation's output; a retry adopts what its failed attempt committed.

    The DAG needs no parameters: the day is that of the run's data interval, the strategy is Async&Sync, and options
    have the values of the settings, otherwise of their declaration. Its inlets and outlets are the path templates of
    the operation, as Airflow assets. Its return value (XCom) names the generation, and contains the report of the
    quality gate if there is one.
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
        tables: Sequence[str] = (),
        strategy: str = _STRATEGY,
        open_platform: OpenPlatform = platform_session,
        materialize: Materialize = _materialize,
        **kwargs: Any,
    ) -> None:
        inlets = [*map(asset_of, sources), *(Asset(name=table, uri=table.partition(":")[2]) for table in tables)]
        kwargs.setdefault("inlets", inlets)
        kwargs.setdefault("outlets", [asset_of(output)])
        super().__init__(**kwargs)
        self.operation = operation
        self.strategy = strategy
        self.parameters = dict(parameters)
        self.options = tuple(options)
        self._open_platform = open_platform
        self._materialize = materialize
        self._dataset: Dataset | None = None

    @classmethod
    def of(cls, operation: RegisteredOperation, **kwargs: Any) -> DatasetOperator:
        """Return the task of a registered operation; its parameters come from the DAG run's of the same names."""
        kwargs.setdefault("doc_md", f"{operation.doc}\n\nMakes `{operation.output}`.")
        return cls(
            operation=operation.name,
            sources=tuple(operation.sources.values()),
            tables=tuple(operation.tables.values()),
            output=operation.output,
            parameters={name: _DAY if name == "ds" else _parameter(name) for name in operation.parameters},
            options=(*operation.options, *operation.tables),
            **kwargs,
        )

    def day_of_interval(self, begin: Any) -> str:
        """Return the day on which a data interval begins, in the zone of the DAG's timetable, otherwise of the DAG."""
        if not begin:
            return ""
        return str(begin.in_timezone(_zone_of(self.dag.timetable) or self.dag.timezone).date())

    def execute(self, context: Any) -> dict[str, Any]:
        """Write the generation, or adopt it if a failed attempt committed it."""
        arguments = {name: value for name, value in self.parameters.items() if value or name not in self.options}
        if empty := [name for name, value in arguments.items() if not value]:
            raise AirflowFailException(
                f"{self.operation}: no value for the parameters {', '.join(empty)}. {_remedy(empty)}"
            )
        strategy = _parse_strategy(self.strategy)
        origin = origin_of(context["dag_run"], self.task_id)
        with self._open_platform(f"task {origin.dag_id}.{self.task_id}") as platform:
            try:
                dataset = self._materialize(platform, self.operation, arguments, origin=origin, strategy=strategy)
            except QualityError as stop:
                context["ti"].xcom_push("quality_report", dict(stop.report))
                raise AirflowFailException(str(stop)) from stop
            except (ParameterError, FaultyOperationError, IrrecoverableError) as hopeless:
                raise AirflowFailException(str(hopeless)) from hopeless
        self._dataset = dataset
        summary = describe(dataset)
        for asset in self.outlets:
            context["outlet_events"][asset].extra = summary
        self.log.info("Made %(dataset)s: %(rows)s rows, %(bytes)s bytes, %(status)s.", summary)
        return summary

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return the lineage for Airflow's OpenLineage provider: the generations that the task read and wrote."""
        return operator_lineage(self._dataset)


def asset_of(template: str) -> Asset:
    """Return the Airflow asset for the datasets of a path template."""
    return Asset(name=template, uri=f"springline://{template}")


def _zone_of(timetable: Any) -> Any:
    """Return the zone of a timetable: its own, that of the timetable that it wraps or of its first one; else None."""
    for name in ("timetable", "timetables", "_timetables"):
        if inner := getattr(timetable, name, None):
            return _zone_of(inner[0] if isinstance(inner, list) else inner)
    return getattr(timetable, "timezone", None) or getattr(timetable, "_timezone", None)


def _parameter(name: str) -> str:
    return f"{{{{ params.get('{name}') or '' }}}}"


def _remedy(empty: Sequence[str]) -> str:
    if "ds" in empty:
        return "This DAG run has no logical date: set the parameter `ds` to the date when triggering it."
    return "Set them when triggering the DAG run, or in `params` of the DAG."


def _parse_strategy(name: str) -> Strategy:
    """Return the strategy of this name; raises `AirflowFailException`, since retries cannot help."""
    try:
        return Strategy(name)
    except ValueError:
        strategy_names = ", ".join(Strategy)
        raise AirflowFailException(f"unknown strategy {name!r}: use one of {strategy_names}") from None


def describe(dataset: Dataset) -> dict[str, Any]:
    """Return a summary of a generation for the page of its DAG run, in plain values."""
    summary: dict[str, Any] = {
        "dataset": str(dataset.ref),
        "status": str(dataset.status()),
        "rows": dataset.rows,
        "bytes": dataset.bytes,
        "seconds": dataset.compute_seconds,
        "digest": dataset.digest,
        "operation": f"{dataset.call.name} {dataset.call.version}" if dataset.call else "",
        "sources": [str(ref) for ref in dataset.sources],
    }
    if dataset.report:
        summary["quality_report"] = dict(dataset.report)
    return summary
