"""Builds the platform from settings: the one module that knows which backend, database and policy are in use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from springline.persistence.backends.registry import open_backend
from springline.persistence.backends.spec import Backend, UnderStore
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.claims import Claims
from springline.persistence.catalog.proof_claims import ProofClaims
from springline.persistence.catalog.table_claims import TableClaims
from springline.persistence.decisions.proof import ProofThresholds
from springline.persistence.engine.attempt import Sender
from springline.persistence.engine.copier import BandwidthLimiter
from springline.persistence.engine.maintenance import Maintenance
from springline.persistence.engine.persister import Persister
from springline.persistence.engine.prover import Prover
from springline.persistence.engine.replacement import Replacement
from springline.persistence.engine.restorer import Restorer
from springline.persistence.engine.runner import ConfigurableRunner, Runner, load_runner
from springline.persistence.engine.store import Store
from springline.persistence.engine.table_writer import TableWriter
from springline.persistence.engine.verification import UnderStoreWatch, Verifier
from springline.persistence.lakehouse.targets import targets_of
from springline.persistence.monitoring.metric import MetricsReporter
from springline.persistence.monitoring.metrics import transition_listener
from springline.persistence.monitoring.openlineage_sender import LineageSender, open_lineage_sender
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.monitoring.telemetry import open_metrics_reporter
from springline.persistence.policies import load_policy
from springline.persistence.private_files import create_private_cache
from springline.persistence.settings import Settings

LineageSenderFactory = Callable[[str], LineageSender | None]  # called with the name of the policy


@dataclass
class Platform:
    """All services for one catalog, one cache and one under-store; `open_platform` creates it, `close` ends it.

    A program uses `store` and `persister`, and queries `catalog`: `store.register_operations`, `store.read`,
    `store.write`, `persister.drain`, `catalog.resolve`, as docs/persistence.md shows.

    Attributes:
        settings: the settings it was opened with.
        catalog: the generations and their locations.
        cache: the store in memory, a `Backend`.
        under: the under-store, an `UnderStore`.
        runner: runs operations again.
        claims: the queue, with the leases of the persisters.
        watch: whether the under-store responds.
        replacement: evicts generations when space is needed.
        restorer: restores lost generations.
        store: writes and reads datasets.
        persister: sends queued generations to the under-store.
        table_writer: puts persisted generations into tables of Delta Lake and Iceberg.
        prover: runs operations a second time, to prove them idempotent.
        maintenance: retires superseded generations.
        metrics_reporter: reports metrics.
        lineage_sender: sends OpenLineage events; None: not configured.

    Example:
        >>> from springline.testing import platform_in
        >>> with platform_in(folder) as platform:
        ...     platform.persister.drain().persisted
        0
    """

    settings: Settings
    catalog: Catalog
    cache: Backend
    under: UnderStore
    runner: Runner
    claims: Claims
    watch: UnderStoreWatch
    replacement: Replacement
    restorer: Restorer
    store: Store
    persister: Persister
    table_writer: TableWriter
    prover: Prover
    maintenance: Maintenance
    metrics_reporter: MetricsReporter
    lineage_sender: LineageSender | None

    def close(self) -> None:
        """Close the database connections, and send pending metrics and events, within a few seconds."""
        self.catalog.engine.dispose()
        self.metrics_reporter.close()
        if self.lineage_sender is not None:
            self.lineage_sender.close()


def open_platform(
    settings: Settings | None = None,
    *,
    runner: Runner | None = None,
    actor: str = "",
    metrics_reporter: MetricsReporter | None = None,
    lineage_factory: LineageSenderFactory = open_lineage_sender,
) -> Platform:
    """Open the platform that `settings` describe, with its catalog migrated to the current revision.

    Args:
        settings: by default those of the environment and of the profile.
        runner: runs operations again; by default the one that the settings name, else none.
        actor: is logged with each change; by default host and process.
        metrics_reporter: reports metrics; by default the one that the settings name.
        lineage_factory: creates the sender of OpenLineage events, given the name of the policy; by default as
            OpenLineage's own variables configure it.

    Returns:
        The platform; close it after use.

    Raises:
        SettingsError: a setting has an invalid value.
        StorageUnavailableError: the folder of the default cache belongs to another user.
        CatalogUnavailableError: the catalog's database does not respond.

    Example:
        >>> from contextlib import closing
        >>> settings = Settings(home=folder, cache_uri=(folder / "cache").as_uri())
        >>> with closing(open_platform(settings)) as platform:
        ...     platform.store.register_operations([Operation("load", "1", idempotent=False)])
    """
    settings = settings or Settings()
    settings.home.mkdir(parents=True, exist_ok=True)
    runner = runner if runner is not None else load_runner(settings.runner)
    catalog = Catalog(settings.catalog_address, actor=actor, timeout=settings.catalog_timeout)
    monitoring = MonitoringSettings(home=settings.home)
    metrics_reporter = metrics_reporter if metrics_reporter is not None else open_metrics_reporter(monitoring)
    catalog.subscribe(transition_listener(metrics_reporter))
    lineage_sender = lineage_factory(settings.policy)
    if lineage_sender is not None:
        catalog.subscribe(lineage_sender.on_transition)
    cache = open_backend(settings.cache_uri or create_private_cache(settings.home).as_uri(), "cache", settings)
    under = open_backend(settings.under_address, "under", settings, in_use=catalog.uses_under_store)
    if isinstance(runner, ConfigurableRunner):
        runner.configure(settings, {**cache.hadoop_conf, **under.hadoop_conf})
    claims = Claims(catalog, settings.lease_seconds)
    verifier = Verifier(catalog, cache, under)
    replacement = Replacement(
        catalog, cache, under, verifier, limit=settings.cache_capacity, order=settings.cache_replacement
    )
    restorer = Restorer(catalog, claims, cache, under, runner, verifier, replacement, settings.reader_lease_seconds)
    policy = load_policy(settings)
    sender = Sender(catalog, claims, cache, under, runner)
    store = Store(
        catalog=catalog,
        claims=claims,
        cache=cache,
        under=under,
        sender=sender,
        restorer=restorer,
        replacement=replacement,
        policy=policy,
        reader_seconds=settings.reader_lease_seconds,
        retry_seconds=settings.retry_seconds,
        sync_timeout=settings.sync_timeout,
        sync_unproven=settings.sync_unproven,
    )
    persister = Persister(
        catalog=catalog,
        claims=claims,
        sender=Sender(
            catalog, claims, cache, under, runner, BandwidthLimiter(settings.persist_bandwidth, claims.has_sync_waiter)
        ),
        restorer=restorer,
        policy=policy,
        small_bytes=settings.min_operation_bytes,
        retry_seconds=settings.retry_seconds,
    )
    table_writer = TableWriter(
        catalog, TableClaims(catalog, settings.lease_seconds), cache, under, verifier, settings,
        targets_of(settings.tables), settings.reader_lease_seconds,
    )  # fmt: skip
    prover = Prover(
        catalog=catalog,
        claims=claims,
        proofs=ProofClaims(catalog, settings.lease_seconds),
        cache=cache,
        under=under,
        runner=runner,
        replacement=replacement,
        restorer=restorer,
        thresholds=ProofThresholds(settings.prove_bytes, settings.prove_seconds),
        reader_seconds=settings.reader_lease_seconds,
        enabled=settings.prove,
    )
    maintenance = Maintenance(catalog, cache, under, restorer, settings.keep_generations, settings.reader_lease_seconds)
    watch = UnderStoreWatch(catalog, under)
    return Platform(
        settings, catalog, cache, under, runner, claims, watch, replacement, restorer, store, persister, table_writer,
        prover, maintenance, metrics_reporter, lineage_sender,
    )  # fmt: skip
