"""OpenLineage events: what happens to generations, in the classes of OpenLineage's own library.

Airflow's provider for OpenLineage sends the events of DAG runs and of tasks.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime

import attr
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.generated.base import DatasetFacet, OutputDatasetFacet, RunFacet
from openlineage.client.generated.dataset_version_dataset import DatasetVersionDatasetFacet
from openlineage.client.generated.error_message_run import ErrorMessageRunFacet
from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet

from springline.persistence.model.dataset import Dataset, Phase, Ref
from springline.persistence.model.transitions import Event
from springline.persistence.text.redaction import redacted

PRODUCER = "urn:springline"
FACET = "springline_persistence"
SCHEMA = "urn:springline:schemas:PersistenceOutputDatasetFacet:1-0-0"  # the file of that name in schemas/

_IDS = uuid.UUID("6f9d3cf2-52d4-5f0c-9d2d-6a2f5a2e7b11")  # of the runs' ids
_AFTERWARDS = (Event.COPIED, Event.EVICTED, Event.LOST, Event.UNDER_LOST, Event.RESTORED, Event.RETIRED)


@attr.define(kw_only=True)
class PersistenceOutputDatasetFacet(OutputDatasetFacet):
    """How a generation is persisted; the fields are those of its schema."""

    event: str
    state: str
    cache: str
    underStore: str
    generation: int
    bytes: int
    strategy: str
    policy: str
    rows: int | None = None
    digest: str | None = None
    persistedBy: str | None = None
    persistedSeconds: float | None = None
    _producer: str = PRODUCER

    @staticmethod
    def _get_schema() -> str:
        return SCHEMA


@dataclass(frozen=True)
class Events:
    """Makes the events.

    `namespace` is that of jobs and datasets, `policy` the order of persisting. `commits`: whether commits are told as
    runs; not where an Airflow task makes the generation, since the task's own events name it.
    """

    namespace: str
    policy: str = ""
    commits: bool = True

    def of_change(self, event: Event, dataset: Dataset, at: float) -> list[RunEvent]:
        """What is told of a change of state, at a time in seconds since 1970; nothing before a generation is committed.

        Each commit, and each later change, is a run of its own, from start to end.
        """
        if dataset.phase is Phase.OPEN:
            return []
        if event in (Event.COMMITTED, Event.ABANDONED):
            return self._of_commit(event, dataset, at) if self.commits else []
        if event not in _AFTERWARDS:
            return []
        run, job = self._run(str(dataset.ref), event.value, repr(at)), self._job(f"persistence.{event.value}")
        took = (dataset.actual_seconds or 0.0) if event is Event.COPIED else 0.0
        return [
            self._event(RunState.START, run, job, at - took),
            self._event(RunState.COMPLETE, run, job, at, [], [self.output(event, dataset)]),
        ]

    def _of_commit(self, event: Event, dataset: Dataset, at: float) -> list[RunEvent]:
        """The run that wrote a generation, whether it was committed or abandoned."""
        task = f"{dataset.origin.dag_id}.{dataset.origin.task_id}" if dataset.origin.task_id else "write"
        run, job = self._run(str(dataset.ref), "write"), self._job(dataset.call.name if dataset.call else task)
        began = self._event(RunState.START, run, job, dataset.created_at or at)
        inputs, outputs = self.inputs(dataset), [self.output(event, dataset)]
        if event is Event.COMMITTED:
            return [began, self._event(RunState.COMPLETE, run, job, at, inputs, outputs)]
        failed = Run(run.runId, _error(dataset.error))
        return [began, self._event(RunState.FAIL, failed, job, at, inputs, outputs)]

    def inputs(self, dataset: Dataset) -> list[InputDataset]:
        """The generations that it was made from."""
        return [InputDataset(self.namespace, ref.path, facets=_version(ref)) for ref in dataset.sources]

    def output(self, event: Event, dataset: Dataset) -> OutputDataset:
        """The generation after this event, with the facet of its persistence."""
        facet = PersistenceOutputDatasetFacet(
            event=event.value, state=dataset.status().value, cache=dataset.cache.value,
            underStore=dataset.under.value, generation=dataset.ref.generation, bytes=dataset.bytes,
            strategy=dataset.strategy.value, policy=self.policy, rows=dataset.rows, digest=dataset.digest or None,
            persistedBy=dataset.method.value if dataset.persisted and dataset.method else None,
            persistedSeconds=dataset.actual_seconds if dataset.persisted else None,
        )  # fmt: skip
        facets: dict[str, OutputDatasetFacet] = {FACET: facet}
        if event is Event.COMMITTED:
            facets["outputStatistics"] = OutputStatisticsOutputDatasetFacet(
                rowCount=dataset.rows, size=dataset.bytes, producer=PRODUCER
            )
        return OutputDataset(self.namespace, dataset.ref.path, facets, facets=_version(dataset.ref))

    def _event(
        self,
        state: RunState,
        run: Run,
        job: Job,
        at: float,
        inputs: list[InputDataset] | None = None,
        outputs: list[OutputDataset] | None = None,
    ) -> RunEvent:
        time = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
        return RunEvent(
            eventType=state, eventTime=time, run=run, job=job, inputs=inputs or [], outputs=outputs or [],
            producer=PRODUCER,
        )  # fmt: skip

    def _run(self, *names: str) -> Run:
        """The run of these names: always the same id."""
        return Run(str(uuid.uuid5(_IDS, "\n".join((self.namespace, *names)))))

    def _job(self, name: str) -> Job:
        return Job(self.namespace, name)


def _version(ref: Ref) -> dict[str, DatasetFacet]:
    return {"version": DatasetVersionDatasetFacet(str(ref.generation), producer=PRODUCER)}


def _error(words: str) -> dict[str, RunFacet]:
    if not words:
        return {}
    return {"errorMessage": ErrorMessageRunFacet(redacted(words), "PYTHON", producer=PRODUCER)}
