"""Schemas of messages, from a schema registry that speaks Confluent's protocol.

A message begins with a zero and the id of its schema, which the registry never changes: so each process asks once for
each. While the registry does not answer, a round waits.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from springline.persistence.text.redaction import redact_secrets
from springline.spark_jobs.streaming.errors import SchemaUnavailableError
from springline.spark_jobs.streaming.kernels.hash_tables import Ints
from springline.spark_jobs.streaming.sources.errors import InvalidFormatError
from springline.spark_jobs.streaming.sources.settings import SchemaRegistrySettings

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    from springline.spark_jobs.streaming.runtime.message import MessageBatch

ID_BYTES = 5  # before the content: a zero, and the id of the schema
_REQUEST_SECONDS = 10.0
_PATIENCE_SECONDS = 30.0  # without an answer, until the round fails
_PAUSES = (0.1, 0.25, 0.5, 1.0, 2.0)  # seconds; the last one again and again
_TRANSIENT = (401, 403, 408, 429)  # statuses that say nothing about a schema
_UNKNOWN = 40403  # the registry's code for an id that it does not have
_UNKNOWN_VERSION = (40401, 40402, _UNKNOWN)  # and for a subject or a version
_MAX_REFERENCES = 1_000  # schemas that a schema uses, directly or not

logger = logging.getLogger("springline.schema_registry")


class UnknownSchemaError(Exception):
    """Raised for an id, or a schema that it refers to, that the registry does not have."""


class SchemaReference(NamedTuple):
    """A schema that another one uses: the name by which it does, such as the path of an import, and its text."""

    name: str
    text: str


class RegisteredSchema(NamedTuple):
    """A schema: its kind (AVRO, PROTOBUF or JSON), its text, and the schemas that it uses.

    Each of `references` is after those that it uses itself.
    """

    kind: str
    text: str
    references: tuple[SchemaReference, ...] = ()


class SchemaRegistry:
    """A schema registry; usable by several threads.

    Args:
        url: its address, or several separated by commas, which are tried one after another.
        options: further ones of confluent-kafka's `SchemaRegistryClient`, such as `basic.auth.user.info`.

    Raises:
        InvalidFormatError: the address is none.

    Example:
        >>> SchemaRegistry("http://127.0.0.1:8081").schema(7).kind
        'AVRO'
    """

    def __init__(self, url: str, options: Mapping[str, Any] | None = None) -> None:
        if not all(each.strip().startswith(("http://", "https://")) for each in url.split(",")):
            raise InvalidFormatError(
                f"SPRINGLINE_SCHEMA_REGISTRY={redact_secrets(url)}: write http://HOST:PORT or https://HOST:PORT"
            )
        self._url = url
        self._options = {"timeout": _REQUEST_SECONDS, **(options or {}), "max.retries": 0, "url": url}
        self._client: SchemaRegistryClient | None = None
        self._lock = threading.Lock()
        self._schemas: dict[int, RegisteredSchema] = {}

    def schema(self, schema_id: int) -> RegisteredSchema:
        """Return the schema with an id; waits while the registry does not answer.

        Raises `UnknownSchemaError`, and `SchemaUnavailableError` after half a minute, or at once if it refuses
        the credentials.
        """
        with self._lock:
            if schema_id not in self._schemas:
                self._client = client = self._client or self._open()
                schema = self._ask(lambda: client.get_schema(schema_id), (_UNKNOWN,), "the registry has no such id")
                references = tuple(self._references(client, schema))
                kind, text = schema.schema_type or "AVRO", schema.schema_str or ""
                self._schemas[schema_id] = RegisteredSchema(kind, text, references)
            return self._schemas[schema_id]

    def _open(self) -> SchemaRegistryClient:
        from confluent_kafka.schema_registry import SchemaRegistryClient  # it takes a while

        try:
            return SchemaRegistryClient(self._options)
        except (ValueError, TypeError, OSError) as error:
            raise SchemaUnavailableError(f"SPRINGLINE_SCHEMA_REGISTRY_OPTIONS: {redact_secrets(str(error))}") from error

    def _references(self, client: SchemaRegistryClient, schema: Any) -> Iterator[SchemaReference]:
        """Yield the schemas that a schema uses, each after those that it uses itself."""
        visited = set()

        def visit(references: Any) -> Iterator[SchemaReference]:
            for reference in references or ():
                place = (reference.subject, reference.version)
                if place in visited:
                    continue
                visited.add(place)
                if len(visited) > _MAX_REFERENCES:
                    raise UnknownSchemaError(f"it uses more than {_MAX_REFERENCES:,} other schemas")
                named = self._ask(
                    partial(client.get_version, *place), _UNKNOWN_VERSION,
                    "it uses version {1} of {0}, which the registry does not have".format(*place),
                )  # fmt: skip
                yield from visit(named.schema.references)
                yield SchemaReference(str(reference.name), str(named.schema.schema_str))

        yield from visit(schema.references)

    def _ask(self, request: Callable[[], Any], unknown: tuple[int, ...], reason: str) -> Any:
        """Return the answer to a request; see `schema`. One of the codes `unknown` is an `UnknownSchemaError`."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        until, tries = time.monotonic() + _PATIENCE_SECONDS, 0
        while True:
            is_lasting = False
            try:
                return request()
            except SchemaRegistryError as error:
                if error.error_code in unknown:
                    raise UnknownSchemaError(reason) from error
                is_lasting = error.http_status_code in (401, 403)
                is_refused = 400 <= error.http_status_code < 500 and error.http_status_code not in _TRANSIENT
                if is_refused and self._is_there():
                    raise UnknownSchemaError(f"the registry refuses it: {redact_secrets(str(error))[:200]}") from error
                failure: Exception = error
            except Exception as error:  # of the connection, or an answer that is none
                failure = error
            text = redact_secrets(f"schema registry at {self._url}: {str(failure) or type(failure).__name__}")
            if is_lasting or time.monotonic() > until:
                raise SchemaUnavailableError(
                    f"{text}; the round is repeated when the job is started again: check "
                    "SPRINGLINE_SCHEMA_REGISTRY and SPRINGLINE_SCHEMA_REGISTRY_OPTIONS"
                ) from failure
            if not tries:
                logger.warning("%s; waiting for it", text)
            time.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
            tries += 1

    def _is_there(self) -> bool:
        """Return whether what answers is a registry: a server of another kind refuses everything."""
        try:
            return self._client is not None and isinstance(self._client.get_subjects(), list)
        except Exception:  # whatever it answered
            return False


def configured_registry() -> SchemaRegistry | None:
    """Return the registry of the settings, the same one in a process; None if they name none."""
    settings = SchemaRegistrySettings()
    if not settings.schema_registry:
        return None
    return _registry(settings.schema_registry, json.dumps(settings.schema_registry_options, sort_keys=True))


@cache
def _registry(url: str, options: str) -> SchemaRegistry:
    return SchemaRegistry(url, json.loads(options))


def schema_ids(messages: MessageBatch) -> Ints:
    """Return the id that each message begins with; -1: it begins with none. Ids have 31 bits."""
    starts = messages.starts.astype(np.int64)
    has_id = messages.lengths >= ID_BYTES
    at = np.where(has_id, starts, 0)
    if not messages.data.size:
        return np.full(len(messages), -1, np.int64)
    ids = np.zeros(len(messages), np.int64)
    for byte in range(1, ID_BYTES):
        ids = ids << 8 | messages.data[np.minimum(at + byte, messages.data.size - 1)]
    return np.where(has_id & (messages.data[at] == 0) & (ids < 1 << 31), ids, -1)
