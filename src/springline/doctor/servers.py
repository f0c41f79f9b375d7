"""Checks of the configured servers (catalog, stores, Kafka, ports), run concurrently, each with a short timeout."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from springline.doctor.findings import Finding, note, ok, problem
from springline.doctor.settings import LoadedSettings, declarations_file
from springline.persistence.settings import Settings
from springline.persistence.text.formatting import format_seconds
from springline.persistence.text.redaction import redact_secrets

if TYPE_CHECKING:
    from sqlalchemy import URL

ANSWER_TIMEOUT = 2.0  # seconds, of one server
TOTAL_TIMEOUT = 3.0  # seconds, of all checks together
MAX_CLOCK_SKEW = 2.0  # seconds between this machine's clock and the catalog's

Check = Callable[[], Finding]


def check_servers(loaded_settings: LoadedSettings) -> Iterator[Finding]:
    """Check all servers that the settings name, concurrently."""
    checks: dict[str, Check] = {}
    if isinstance(settings := loaded_settings.by_class.get("Settings"), Settings):
        store_settings = settings
        checks["catalog"] = lambda: check_catalog(store_settings.catalog_address)
        checks["under-store"] = lambda: check_store("under-store", store_settings.under_address, store_settings)
        if store_settings.cache_uri:
            checks["cache"] = lambda: check_store("cache", store_settings.cache_uri, store_settings)
    if (cluster := loaded_settings.value("StreamSettings", "cluster")) is not None:
        is_needed = declarations_file(loaded_settings) is not None
        checks["kafka"] = lambda: check_kafka(cluster, is_needed=is_needed)
    yield from run_checks(checks)


def run_checks(checks: dict[str, Check], seconds: float = TOTAL_TIMEOUT) -> list[Finding]:
    """Run the checks concurrently; one that takes longer than `seconds` is reported as a problem: no answer."""
    results: dict[str, Finding] = {}

    def run_check(name: str, check: Check) -> None:
        try:
            results[name] = check()
        except Exception as error:
            results[name] = problem(name, redact_secrets(str(error)) or type(error).__name__, "see the message")

    # No pool: it would wait for threads that hang.
    threads = [threading.Thread(target=run_check, args=each, daemon=True) for each in checks.items()]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    timeout_message = f"no answer within {format_seconds(seconds)}"
    return [
        results.get(name) or problem(name, timeout_message, "check whether it is overloaded, or blocked by a firewall")
        for name in checks
    ]


def check_catalog(address: str | URL) -> Finding:
    """Check the database of the catalog; one that does not exist yet is ok, and is not created."""
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from sqlalchemy import create_engine, text
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import SQLAlchemyError

    from springline.persistence.catalog.database import migration_config

    url = make_url(address)
    shown = redact_secrets(url.render_as_string())
    is_file = url.get_backend_name() == "sqlite"
    if is_file and not Path(url.database or "").exists():
        return ok("catalog", f"{url.database}: will be created at first use")
    options = {"timeout": ANSWER_TIMEOUT} if is_file else {"connect_timeout": round(ANSWER_TIMEOUT)}
    try:
        if is_file:
            file_uri = Path(url.database or "").absolute().as_uri()
            url = url.set(database=file_uri, query={"mode": "ro", "uri": "true"})
        engine = create_engine(url, connect_args=options)
        with engine.connect() as connection:
            revision = MigrationContext.configure(connection).get_current_revision()
            skew = 0.0 if is_file else float(connection.scalar(text("SELECT extract(epoch FROM now())"))) - time.time()
        engine.dispose()
    except (SQLAlchemyError, ImportError) as error:
        message = " ".join(str(getattr(error, "orig", None) or error).split())
        return problem(
            "catalog", f"{shown} does not answer: {redact_secrets(message)}", "start it, or set SPRINGLINE_CATALOG_URL"
        )
    scripts = ScriptDirectory.from_config(migration_config())
    revisions = {script.revision for script in scripts.walk_revisions()}
    if revision is not None and revision not in revisions:
        remedy = "use the newer version of Springline, or restore a backup from before its migration"
        return problem("catalog", f"{shown} is at revision {revision}, which this version does not support", remedy)
    if abs(skew) > MAX_CLOCK_SKEW:
        remedy = "synchronize both machines with a time server"
        return problem(
            "catalog", f"{shown}: its clock differs from this machine's by {format_seconds(abs(skew))}", remedy
        )
    migration_note = (
        "" if revision == scripts.get_current_head() else "; its tables will be migrated when it is next opened"
    )
    return ok("catalog", f"{shown} answers{migration_note}")


def check_store(name: str, uri: str, settings: Settings) -> Finding:
    """Check a store; a folder that does not exist yet is ok, and is not created."""
    setting = "SPRINGLINE_CACHE_URI" if name == "cache" else "SPRINGLINE_UNDER_URI"
    from springline.persistence.backends.local import LocalBackend
    from springline.persistence.backends.registry import open_backend

    parts = urlsplit(uri)
    if parts.hostname and parts.port and (reason := connection_error(parts.hostname, parts.port)):
        return problem(name, f"{redact_secrets(uri)} does not answer: {reason}", f"start it, or set {setting}")
    store = open_backend(uri, "cache" if name == "cache" else "under", settings, in_use=lambda: True)
    if isinstance(store, LocalBackend):
        folder = store.root
        if folder.is_dir():
            return ok(name, f"{folder} exists")
        parent = next(each for each in folder.parents if each.is_dir())
        if parent in (settings.home, folder.parent) or parent == settings.home.parent:
            return ok(name, f"{folder}: will be created at first use")
        return problem(name, f"neither {folder} nor {folder.parent} exists", f"mount it, or set {setting}")
    if reason := store.unavailable_reason():
        return problem(name, redact_secrets(reason), f"start it, or set {setting}")
    return ok(name, f"{redact_secrets(uri)} answers")


def check_kafka(cluster: Any, *, is_needed: bool) -> Finding:
    """Check Kafka's brokers; `is_needed` is false if no stream job is declared."""
    from springline.spark_jobs.streaming.kafka.probe import connection_error

    if not (reason := connection_error(cluster.servers)):
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            quiet: dict[str, Any] = {"log_level": 0, "error_cb": lambda error: None}
            AdminClient({**cluster.config(), **quiet}).list_topics(timeout=ANSWER_TIMEOUT)
        except KafkaException as error:
            reason = error.args[0].str()
    if not reason:
        return ok("kafka", f"{cluster.servers} answers")
    if not is_needed:
        return note(
            "kafka", f"{cluster.servers} does not answer ({reason}); not needed, since no stream job is declared"
        )
    remedy = (
        "run `springline up kafka` to start one here, or set SPRINGLINE_KAFKA_BOOTSTRAP_SERVERS to HOST:PORT of another"
    )
    return problem("kafka", f"{cluster.servers} does not answer: {redact_secrets(reason)}", remedy)


def connection_error(host: str, port: int, seconds: float = ANSWER_TIMEOUT) -> str:
    """Return why no connection to the address is possible, or an empty text if one is."""
    try:
        with socket.create_connection((host, port), seconds):
            return ""
    except (OSError, OverflowError) as error:
        return getattr(error, "strerror", None) or str(error)


def check_ports(settings: Any, servers: Sequence[str]) -> Iterator[Finding]:
    """Check the ports of the servers that are started here: each is free, or its server is running."""
    from springline.services.errors import PortInUseError, ServiceError
    from springline.services.process.ports import port_wait_reason
    from springline.services.supervisor import Supervisor

    supervisor = Supervisor(settings.home)
    for server in servers:
        ports = _ports_of(server, settings)
        try:
            if (state := supervisor.status(server)).processes:
                yield ok("ports", f"{server}: {state.state} at {state.address}")
            elif busy := port_wait_reason(server, ports):
                yield problem("ports", f"{server}: {busy}", "wait a minute")
            else:
                yield ok("ports", f"{server}: {', '.join(map(str, ports.values()))} free")
        except PortInUseError as error:
            message, _, remedy = str(error).partition(". End that process")
            yield problem("ports", message, f"End that process{remedy}")
        except ServiceError as error:
            yield problem("ports", str(error), "see the message")


def _ports_of(server: str, settings: Any) -> dict[str, int]:
    """Return the first port of each kind that a server uses, by name of the setting."""
    prefix = f"{server.replace('-', '_')}_"
    others = "spark_connect_" if server == "spark" else prefix
    names = (
        name
        for name in type(settings).model_fields
        if name.startswith(prefix) and name.endswith("_port") and (prefix == others or not name.startswith(others))
    )
    return {f"SPRINGLINE_{name.upper()}": getattr(settings, name) for name in names}
