"""Puts the parts together from settings: the one place that knows which backend, database and policy are in use."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from springline.persistence.backends.registry import open_backend
from springline.persistence.backends.spec import Backend
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.claims import Claims
from springline.persistence.catalog.proof_claims import ProofClaims
from springline.persistence.decisions.proof import Bounds
from springline.persistence.engine.attempt import Sender
from springline.persistence.engine.copier import Pace
from springline.persistence.engine.maintenance import Maintenance
from springline.persistence.engine.persister import Persister
from springline.persistence.engine.prover import Prover
from springline.persistence.engine.replacement import Replacement
from springline.persistence.engine.restorer import Restorer
from springline.persistence.engine.runner import Runner, load_runner
from springline.persistence.engine.store import Store
from springline.persistence.engine.verification import UnderStoreWatch, Verifier
from springline.persistence.errors import StorageUnavailableError
from springline.persistence.monitoring.metric import Meter
from springline.persistence.monitoring.metrics import counting
from springline.persistence.monitoring.openlineage_sender import Lineage, open_lineage
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.monitoring.telemetry import open_meter
from springline.persistence.policies import policy_of
from springline.persistence.settings import Settings

OpenLineage = Callable[[str], Lineage | None]  # given the name of the policy


@dataclass
class Platform:
    """Everything that works on one catalog, one cache and one under-store; `open_platform` makes it, `close` ends it.

    A program uses `store` and `persister`, and asks `catalog`: `store.register_operations`, `store.read`,
    `store.write`, `persister.drain`, `catalog.resolve`, as docs/persistence.md shows.

    Attributes:
        settings: what it was opened by.
        catalog: which generations there are, and where.
        cache: the store in memory, a `Backend`.
        under: the under-store, a `Backend`.
        runner: what runs operations again.
        claims: who persists what, under leases.
        watch: whether the under-store answers.
        replacement: what leaves the cache when room is wanted.
        restorer: brings back what is lost.
        store: writes and reads datasets.
        persister: sends what waits to the under-store.
        prover: runs operations a second time, to see whether they repeat.
        maintenance: retires what nobody needs any more.
        meter: takes the metrics.
        lineage: sends OpenLineage events; None: nobody wants them.

    Example:
        >>> from springline.testing import platform_in
        >>> with platform_in(folder) as platform:
        ...     platform.persister.drain().persisted
        0
    """

    settings: Settings
    catalog: Catalog
    cache: Backend
    under: Backend
    runner: Runner
    claims: Claims
    watch: UnderStoreWatch
    replacement: Replacement
    restorer: Restorer
    store: Store
    persister: Persister
    prover: Prover
    maintenance: Maintenance
    meter: Meter
    lineage: Lineage | None

    def close(self) -> None:
        """Let go of the database; what was told to collectors goes out, within moments."""
        self.catalog.engine.dispose()
        self.meter.close()
        if self.lineage is not None:
            self.lineage.close()


def open_platform(
    settings: Settings | None = None,
    *,
    runner: Runner | None = None,
    who: str = "",
    meter: Meter | None = None,
    lineage: OpenLineage = open_lineage,
) -> Platform:
    """Open the platform that `settings` describe, with its catalog brought up to date.

    Args:
        settings: by default those of the environment and of the profile.
        runner: runs operations again; by default the one that the settings name, else none.
        who: is noted beside each change; by default host and process.
        meter: takes the metrics; by default the one that the settings name.
        lineage: opens what takes OpenLineage events, given the name of the policy; by default what OpenLineage's own
            variables name.

    Returns:
        The platform; close it when it is not needed any more.

    Raises:
        SettingsError: a setting has a value that it cannot have.
        StorageUnavailableError: the folder of the default cache is somebody else's.
        CatalogUnavailableError: the catalog's database does not answer.

    Example:
        >>> from contextlib import closing
        >>> settings = Settings(home=folder, cache_uri=(folder / "cache").as_uri())
        >>> with closing(open_platform(settings)) as platform:
        ...     platform.store.register_operations([Operation("load", "1", idempotent=False)])
    """
    settings = settings or Settings()
    settings.home.mkdir(parents=True, exist_ok=True)
    runner = runner if runner is not None else load_runner(settings.runner)
    catalog = Catalog(settings.catalog_address, who=who, patience=settings.catalog_patience)
    monitoring = MonitoringSettings(home=settings.home)
    meter = meter if meter is not None else open_meter(monitoring)
    catalog.hear(counting(meter))
    sender_of_events = lineage(settings.policy)
    if sender_of_events is not None:
        catalog.hear(sender_of_events.heard)
    cache = open_backend(settings.cache_uri or f"file://{private_cache(settings.home)}", "cache", settings)
    under_uri = settings.under_uri or f"file://{settings.home / 'under'}"
    under = open_backend(under_uri, "under", settings, in_use=catalog.uses_under_store)
    claims = Claims(catalog, settings.lease_seconds)
    verifier = Verifier(catalog, cache, under)
    replacement = Replacement(
        catalog, cache, under, verifier, capacity=settings.cache_capacity, order=settings.replacement
    )
    restorer = Restorer(catalog, claims, cache, under, runner, verifier, replacement, settings.reader_seconds)
    policy = policy_of(settings)
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
        reader_seconds=settings.reader_seconds,
        retry_seconds=settings.retry_seconds,
        sync_patience=settings.sync_patience,
        sync_unproven=settings.sync_unproven,
    )
    persister = Persister(
        catalog=catalog,
        claims=claims,
        sender=Sender(catalog, claims, cache, under, runner, Pace(settings.persist_bandwidth, claims.somebody_waits)),
        restorer=restorer,
        policy=policy,
        small_bytes=settings.small_bytes,
        retry_seconds=settings.retry_seconds,
    )
    prover = Prover(
        catalog=catalog,
        claims=claims,
        proofs=ProofClaims(catalog, settings.lease_seconds),
        cache=cache,
        under=under,
        runner=runner,
        replacement=replacement,
        restorer=restorer,
        bounds=Bounds(settings.prove_bytes, settings.prove_seconds),
        reader_seconds=settings.reader_seconds,
        enabled=settings.prove,
    )
    maintenance = Maintenance(catalog, cache, under, restorer, settings.keep_generations, settings.reader_seconds)
    watch = UnderStoreWatch(catalog, under)
    return Platform(
        settings, catalog, cache, under, runner, claims, watch, replacement, restorer, store, persister, prover,
        maintenance,
        meter, sender_of_events,
    )  # fmt: skip


def default_cache(home: Path) -> Path:
    """A folder in memory that belongs to this home alone; on disk where the system has no /dev/shm."""
    shared = Path("/dev/shm")
    if not shared.is_dir():
        return home / "cache"
    return shared / f"springline-{hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:12]}"


def private_cache(home: Path) -> Path:
    """The default cache, made for its owner alone; raises `StorageUnavailableError` where it is somebody else's.

    Everybody may make folders in /dev/shm, and the name of this one can be guessed.
    """
    folder = default_cache(home)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink() or _owner(folder) not in (os.geteuid(), _owner(home)):
        raise StorageUnavailableError(
            f"{folder} is somebody else's: remove it, or choose another cache: SPRINGLINE_CACHE_URI=…"
        )
    if _owner(folder) == os.geteuid():
        folder.chmod(0o700)
    return folder


def _owner(path: Path) -> int:
    return path.stat().st_uid
