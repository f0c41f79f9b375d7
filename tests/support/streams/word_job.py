"""A tracked word count on a real Kafka, as a process of its own that a test may harm, and start again."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from springline.spark_jobs.streaming.application.status import JobStatus
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from springline.spark_jobs.streaming.tracking.replay.failures import Failure, newest_failures
from tests.support.servers.servers import Running
from tests.support.streams.application import Application
from tests.support.streams.stream_job import read_committed

PARTITIONS = 5  # of which two units read two and three


class WordJob(Application):
    """A word count over a topic of five partitions; `table` are lines of its table, `tracking` of that of tracking."""

    def __init__(
        self, kafka: Running, home: Path, *, tracking: str = "", table: str = "", admitted: int = 20, **settings: str
    ) -> None:
        name = f"words_{uuid.uuid4().hex[:8]}"
        declared = (
            f'[{name}]\nkind = "wordcount"\ntopic = "{name}"\nemit_interval = '
            f"0.5\nmax_messages_per_round = {admitted}\n{table}\n"
            f"[{name}.tracking]\n{tracking}\n"
        )
        super().__init__(kafka, home, name, declared, **settings)

    def feed(self, messages: Iterable[str]) -> None:
        """Send messages of lines, to the partitions in turn."""
        with self.kafka.log() as log:
            log.create({self.name: PARTITIONS})
            with log.record_sender() as sending:
                for number, message in enumerate(messages):
                    sending.send(OutgoingRecord(self.name, number % PARTITIONS, message.encode()))

    def counts(self) -> Counter[str]:
        """The newest count of each word, as a plain consumer sees it that reads what is committed."""
        word_counts: Counter[str] = Counter()
        for value, _ in read_committed(self.kafka.address, f"{self.name}.results"):
            for line in value.splitlines():
                row = json.loads(line)
                word_counts[row["word"]] = max(word_counts[row["word"]], row["count"])
        return word_counts

    def failures(self) -> list[Failure]:
        """The records that were abandoned."""
        with self.kafka.log() as log:
            return newest_failures(log, f"{self.name}.dead-letters", 1_000_000)

    def await_completion(self, *, patience: float = 240) -> None:
        """Wait until every record that was fed is through; the application is started again when it ends."""
        with self.kafka.log() as log:
            expected_offsets = {str(unit): extent.high for unit, extent in log.offset_bounds(self.name).items()}

        def is_complete(status: JobStatus) -> bool:
            low_marks = status.tracking.get("low_watermarks", {})
            return status.is_ready and all(low_marks.get(unit, 0) >= high for unit, high in expected_offsets.items())

        self.await_(is_complete, patience=patience)

    def await_counts(self, expected_counts: Counter[str], *, patience: float = 240) -> None:
        """Wait until these counts are emitted."""
        self.await_(lambda _: self.counts() == expected_counts, patience=patience)
