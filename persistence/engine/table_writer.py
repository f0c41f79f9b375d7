"""Puts persisted datasets into the tables of `SPRINGLINE_TABLES`: once each, whatever dies in between."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from springline.persistence.backends.copy_layout import parse_location, read_copy
from springline.persistence.backends.spec import Backend, UnderStore
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.lease_renewal import renewal
from springline.persistence.catalog.table_claims import TableClaims, TableLease, TableStatus
from springline.persistence.engine.verification import Verifier
from springline.persistence.errors import (
    CatalogUnavailableError,
    MissingDataError,
    describe_error,
)
from springline.persistence.lakehouse.table import TableEntry, open_table
from springline.persistence.lakehouse.targets import TableTarget
from springline.persistence.model.dataset import Dataset, Ref
from springline.persistence.model.table_uri import at_version
from springline.persistence.settings import Settings
from springline.persistence.text.redaction import redact_secrets

logger = logging.getLogger("springline.tables")


@dataclass(frozen=True)
class TableOutcome:
    """A generation that was put into its tables; `versions` names them, and `error` is empty on success."""

    ref: Ref
    versions: tuple[str, ...]
    seconds: float
    error: str = ""


@dataclass
class TableWriter:
    """One worker that puts persisted generations into tables; any number may run, in any number of processes."""

    catalog: Catalog
    claims: TableClaims
    cache: Backend
    under: UnderStore
    verifier: Verifier
    settings: Settings
    targets: Sequence[TableTarget] = ()
    reader_seconds: float = 3600.0
    poll_seconds: float = 2.0  # interval between two checks, after one that found nothing
    owner: str = field(default_factory=lambda: f"table writer {socket.gethostname()}:{os.getpid()}")
    clock: Callable[[], float] = time.monotonic
    _next_poll_at: float = float("-inf")

    def step(self) -> TableOutcome | None:
        """Put the next generation into its tables; returns None if none can be put there now."""
        if not self.targets or self.clock() < self._next_poll_at:
            return None
        try:
            for target in self.targets:
                for ref in self.claims.list_pending(target.uri, target.like, target.covers):
                    if (lease := self.claims.claim(ref, target.uri, self.owner)) is not None:
                        return self._carry_out(lease, target)
        except CatalogUnavailableError:
            pass
        self._next_poll_at = self.clock() + self.poll_seconds
        return None

    def drain(self, on_outcome: Callable[[TableOutcome], None] = lambda outcome: None) -> list[TableOutcome]:
        """Put all generations that can be claimed now into their tables, and return the outcomes."""
        self._next_poll_at = float("-inf")
        outcomes = []
        while (outcome := self.step()) is not None:
            outcomes.append(outcome)
            on_outcome(outcome)
        return outcomes

    def has_pending(self) -> bool:
        """Whether a generation can be put into a table now."""
        return any(
            True for target in self.targets for _ in self.claims.list_pending(target.uri, target.like, target.covers)
        )

    def status(self, target: TableTarget) -> TableStatus:
        """Return how far the datasets of a target are in its tables."""
        return self.claims.status(target.uri, target.like, target.covers)

    def _carry_out(self, lease: TableLease, target: TableTarget) -> TableOutcome:
        started_at = self.clock()
        interval = self.claims.lease_seconds / 3
        versions: list[str] = []
        errors: list[str] = []
        try:
            with (
                renewal(lambda: self.claims.renew(lease), interval, f"table lease {lease.ref}"),
                self.catalog.hold_for_reading(lease.ref, self.reader_seconds, counts_as_read=False) as dataset,
            ):
                self._write(dataset, target, versions, errors)
        except CatalogUnavailableError:
            raise
        except Exception as failure:  # whatever a store raises fails this generation only
            errors.append(describe_error(failure))
        error = redact_secrets("; ".join(errors))
        if error:
            logger.warning("%s is not in its table yet: %s", lease.ref, error)
            self.claims.release(lease, error)
        elif self.claims.complete(lease, ", ".join(versions)):
            reason = ", ".join(versions) or f"no rows for {target.uri}"
            self.catalog.amend(lease.ref, event="in_table", reason=reason)
        return TableOutcome(lease.ref, tuple(versions), self.clock() - started_at, error)

    def _write(self, dataset: Dataset, target: TableTarget, versions: list[str], errors: list[str]) -> None:
        """Put a generation into each of its tables; what one of them raises stops only that one."""
        from springline.persistence.lakehouse.rows import GenerationRows  # imports Arrow: only if there are tables

        dataset = self.verifier.verify(dataset)
        if not dataset.available:
            raise MissingDataError("its copies are missing or damaged; it is put into the table once it is restored")
        backend: Backend = self.cache if dataset.in_cache else self.under
        location = dataset.cache_location if dataset.in_cache else dataset.under_location
        names = self._file_names(dataset, backend, location)
        for part in target.parts(dataset):
            rows = None
            try:
                rows = GenerationRows(dataset, backend, location, part.names or names, part.fields)
                entry = TableEntry.of(dataset, part.fields, is_partitioned=part.is_partitioned)
                uri = part.uri
                versions.append(at_version(uri, open_table(uri, self.settings).replace(entry, rows.reader)))
            except Exception as failure:
                errors.append(describe_error((rows and rows.error) or failure))

    def _file_names(self, dataset: Dataset, backend: Backend, location: str) -> list[str]:
        if dataset.in_cache or parse_location(location) is None:
            return [file.name for file in backend.files(location)]
        return [file.name for file in read_copy(self.under, location)[1].files]
