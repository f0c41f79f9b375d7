"""What sending to Kafka passes on and reports; the client is a stand-in that refuses some messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException

from springline.spark_jobs.streaming.errors import LogUnavailableError, RecordRefusedError
from springline.spark_jobs.streaming.kafka.producer import KafkaSender, write_transaction
from springline.spark_jobs.streaming.runtime.message import Headers
from springline.spark_jobs.streaming.runtime.message_log import MAX_RECORD_BYTES, OutgoingRecord


class Refusing:
    """A producer whose broker refuses the messages of the topic `bad`, so that their transaction fails."""

    def __init__(self, code: int) -> None:
        self.error = KafkaError(code, "Broker: no")
        self.produced: list[dict[str, Any]] = []
        self.is_aborted = False
        self._reports: list[Callable[[], None]] = []

    def produce(self, topic: str, value: bytes | None, *, on_delivery: Callable[..., None], **options: Any) -> None:
        self.produced.append({"topic": topic, "value": value, **options})
        message = Mock()
        message.topic.return_value, message.partition.return_value = topic, options["partition"]
        message.key.return_value, message.value.return_value = options["key"], value
        message.offset.return_value = 7
        error = self.error if topic == "bad" else None
        self._reports.append(lambda: on_delivery(error, message))

    def flush(self, timeout: float) -> int:
        while self._reports:
            self._reports.pop(0)()
        return 0

    def begin_transaction(self) -> None: ...

    def commit_transaction(self, timeout: float) -> None:
        if any(each["topic"] == "bad" for each in self.produced):
            raise KafkaException(KafkaError(KafkaError._STATE, "failed", txn_requires_abort=True))

    def abort_transaction(self, timeout: float) -> None:
        self.is_aborted = True


@pytest.mark.parametrize(
    ("code", "key", "message"),
    [
        (
            KafkaError.MSG_SIZE_TOO_LARGE,
            b"k",
            r"bad\[2\]: .* 4 bytes is larger .*set max.message.bytes of bad",
        ),
        (KafkaError.INVALID_RECORD, None, r"bad\[2\]: .*; it has no key, which a topic with cleanup.policy=compact"),
        (KafkaError.INVALID_RECORD, b"k", r"bad\[2\]: a record of 4 bytes is refused by the topic \(Broker: no\)$"),
    ],
)
def test_a_refused_record_is_named_with_its_topic_and_the_remedy(code: int, key: bytes | None, message: str) -> None:
    """Sent alone or in a transaction, which is aborted; other failures of sending are said to be that."""
    records = [OutgoingRecord("good", 0, b"1"), OutgoingRecord("bad", 2, b"1234"[: 4 - len(key or b"")], key=key)]
    sender = KafkaSender(Refusing(code), 1.0)  # type: ignore[arg-type]
    for record in records:
        sender.send(record)
    with pytest.raises(RecordRefusedError, match=message):
        sender.finish()
    producer = Refusing(code)
    with pytest.raises(RecordRefusedError, match=message):
        write_transaction(producer, records, 1.0)  # type: ignore[arg-type]
    assert producer.is_aborted
    assert write_transaction(Refusing(code), records[:1], 1.0) == 7  # type: ignore[arg-type]
    sender = KafkaSender(Refusing(KafkaError._MSG_TIMED_OUT), 1.0)  # type: ignore[arg-type]
    sender.send(records[1])
    with pytest.raises(LogUnavailableError, match=r"bad\[2\]: .* could not be sent: Broker: no"):
        sender.finish()


def test_a_record_that_no_topic_takes_is_not_sent() -> None:
    """Its key, its headers and what Kafka adds count as well."""
    producer = Refusing(0)
    for record in (
        OutgoingRecord("good", 0, b"x" * (MAX_RECORD_BYTES - 100)),
        OutgoingRecord("good", 0, b"", key=b"x" * MAX_RECORD_BYTES),
        OutgoingRecord("good", 0, b"", {"large": b"x" * MAX_RECORD_BYTES}),
    ):
        with pytest.raises(RecordRefusedError, match=r"good\[0\]: a record of 16,77.* bytes; at most 16,777,216"):
            KafkaSender(producer, 1.0).send(record)  # type: ignore[arg-type]
        with pytest.raises(RecordRefusedError):
            write_transaction(producer, [record], 1.0)  # type: ignore[arg-type]
    assert not producer.produced and producer.is_aborted


def test_a_record_is_sent_as_it_is() -> None:
    """Equal headers, headers without a value, its time in milliseconds, and no value."""
    producer, pairs = Refusing(0), (("a", b"1"), ("b", None), ("a", b"2"))
    record = OutgoingRecord("good", 1, b"", Headers(pairs), b"k", 1_699_999_999.123, is_null=True)
    KafkaSender(producer, 1.0).send(record)  # type: ignore[arg-type]
    assert producer.produced == [
        {"topic": "good", "value": None, "key": b"k", "partition": 1, "headers": list(pairs),
         "timestamp": 1_699_999_999_123}
    ]  # fmt: skip


def test_a_fatal_error_that_the_client_loses_while_it_logs_it_is_the_error_of_the_next_call() -> None:
    """Its flush fails without an exception then, as it does now and then where another writer has fenced this one."""
    producer = Mock()
    producer.flush.side_effect = [SystemError("returned NULL without setting an exception"), 0]
    producer.commit_transaction.side_effect = KafkaException(KafkaError(KafkaError._FENCED, fatal=True))
    with pytest.raises(KafkaException) as raised:
        write_transaction(producer, [OutgoingRecord("good", 0, b"1")], 1.0)
    assert raised.value.args[0].code() == KafkaError._FENCED
