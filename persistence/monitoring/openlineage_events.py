"""OpenLineage events for changes of generations, as classes of OpenLineage's own library.

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

from springline.persistence.model.dataset import Dataset, Phase
from springline.persistence.model.table_uri import place_of, split_version, tables_read
from springline.persistence.model.transitions import Event
from springline.persistence.text.redaction import redact_secrets

PRODUCER = "urn:springline"
FACET = "springline_persistence"
SCHEMA = "urn:springline:schemas:PersistenceOutputDatasetFacet:1-0-0"  # the file of that name in schemas/

_RUN_NAMESPACE = uuid.UUID("6f9d3cf2-52d4-5f0c-9d2d-6a2f5a2e7b11")  # namespace of the run ids
_AFTER_COMMIT = (Event.COPIED, Event.EVICTED, Event.LOST, Event.UNDER_STORE_LOST, Event.RESTORED, Event.RETIRED)


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
class LineageEventBuilder:
    """Builds the events.

    `namespace` is that of jobs and datasets, `policy` the name of the policy. `sends_commits`: whether commits are
    sent as runs; False if an Airflow task makes the generation, since the task's own events name it.
    """

    namespace: str
    policy: str = ""
    sends_commits: bool = True

    def build_change_events(self, event: Event, dataset: Dataset, timestamp: float) -> list[RunEvent]:
        """Return the events of a change of state at `timestamp` (seconds since 1970); none before the commit.

        Each commit, and each later change, is a separate run, from start to end.
        """
        if dataset.phase is Phase.OPEN:
            return []
        if event in (Event.COMMITTED, Event.ABANDONED):
            return self._build_commit_events(event, dataset, timestamp) if self.sends_commits else []
        if event not in _AFTER_COMMIT:
            return []
        run, job = self._run(str(dataset.ref), event.value, repr(timestamp)), self._job(f"persistence.{event.value}")
        duration = (dataset.actual_seconds or 0.0) if event is Event.COPIED else 0.0
        return [
            self._build_event(RunState.START, run, job, timestamp - duration),
            self._build_event(RunState.COMPLETE, run, job, timestamp, [], [self.output(event, dataset)]),
        ]

    def _build_commit_events(self, event: Event, dataset: Dataset, timestamp: float) -> list[RunEvent]:
        """Return the events of the run that wrote a generation, whether it was committed or abandoned."""
        task = f"{dataset.origin.dag_id}.{dataset.origin.task_id}" if dataset.origin.task_id else "write"
        run, job = self._run(str(dataset.ref), "write"), self._job(dataset.call.name if dataset.call else task)
        start_event = self._build_event(RunState.START, run, job, dataset.created_at or timestamp)
        inputs, outputs = self.inputs(dataset), [self.output(event, dataset)]
        if event is Event.COMMITTED:
            return [start_event, self._build_event(RunState.COMPLETE, run, job, timestamp, inputs, outputs)]
        failed_run = Run(run.runId, _error_facets(dataset.error))
        return [start_event, self._build_event(RunState.FAIL, failed_run, job, timestamp, inputs, outputs)]

    def inputs(self, dataset: Dataset) -> list[InputDataset]:
        """Return the generations and the versions of tables that it was made from."""
        generations = [
            InputDataset(self.namespace, ref.path, facets=_version_facets(str(ref.generation)))
            for ref in dataset.sources
        ]
        tables = map(split_version, tables_read(dataset))
        return generations + [InputDataset(*place_of(uri), facets=_version_facets(version)) for uri, version in tables]

    def output(self, event: Event, dataset: Dataset) -> OutputDataset:
        """Return the generation after this event, with the facet of its persistence."""
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
        return OutputDataset(
            self.namespace, dataset.ref.path, facets, facets=_version_facets(str(dataset.ref.generation))
        )

    def _build_event(
        self,
        state: RunState,
        run: Run,
        job: Job,
        timestamp: float,
        inputs: list[InputDataset] | None = None,
        outputs: list[OutputDataset] | None = None,
    ) -> RunEvent:
        time = datetime.fromtimestamp(timestamp, UTC).isoformat(timespec="milliseconds")
        return RunEvent(
            eventType=state, eventTime=time, run=run, job=job, inputs=inputs or [], outputs=outputs or [],
            producer=PRODUCER,
        )  # fmt: skip

    def _run(self, *names: str) -> Run:
        """Return the run with these names: always the same id."""
        return Run(str(uuid.uuid5(_RUN_NAMESPACE, "\n".join((self.namespace, *names)))))

    def _job(self, name: str) -> Job:
        return Job(self.namespace, name)


def _version_facets(version: str) -> dict[str, DatasetFacet]:
    return {"version": DatasetVersionDatasetFacet(version, producer=PRODUCER)}


def _error_facets(message: str) -> dict[str, RunFacet]:
    if not message:
        return {}
    return {"errorMessage": ErrorMessageRunFacet(redact_secrets(message), "PYTHON", producer=PRODUCER)}
