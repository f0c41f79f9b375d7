"""Whether what settings name answers, each asked for moments alone, all at once: catalog, stores, Kafka, ports."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from springline.doctor.findings import Finding, note, ok, problem
from springline.doctor.settings import Read, declares_streams
from springline.persistence.settings import Settings
from springline.persistence.text.formatting import say_seconds
from springline.persistence.text.redaction import redacted

ANSWER_SECONDS = 2.0  # for one who is asked
ALL_SECONDS = 3.0  # for all of them together
MOST_SKEW = 2.0  # seconds between this machine's clock and the catalog's

Check = Callable[[], Finding]


def check_servers(read: Read) -> Iterator[Finding]:
    """All that the settings name, asked at the same time."""
    checks: dict[str, Check] = {}
    if isinstance(settings := read.by_class.get("Settings"), Settings):
        chosen = settings
        checks["catalog"] = lambda: check_catalog(chosen.catalog_address)
        checks["under-store"] = lambda: check_store("under-store", chosen.under_uri or _folder_uri(chosen), chosen)
        if chosen.cache_uri:
            checks["cache"] = lambda: check_store("cache", chosen.cache_uri, chosen)
    if (cluster := read.value("StreamSettings", "cluster")) is not None:
        wanted = declares_streams(read) is not None
        checks["kafka"] = lambda: check_kafka(cluster, wanted=wanted)
    yield from answers(checks)


def answers(checks: dict[str, Check], seconds: float = ALL_SECONDS) -> list[Finding]:
    """What each check tells; of one that takes longer than so many seconds, that it does not answer."""
    results: dict[str, Finding] = {}

    def ask(name: str, check: Check) -> None:
        try:
            results[name] = check()
        except Exception as error:
            results[name] = problem(name, redacted(str(error)) or type(error).__name__, "see the message")

    # No pool: it would wait for those that hang.
    threads = [threading.Thread(target=ask, args=each, daemon=True) for each in checks.items()]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    late = f"no answer within {say_seconds(seconds)}"
    return [
        results.get(name) or problem(name, late, "look whether it is overloaded, or behind a firewall")
        for name in checks
    ]


def check_catalog(address: str) -> Finding:
    """The database of the catalog; one that is not made yet is well, and is not made now."""
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from sqlalchemy import create_engine, text
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import SQLAlchemyError

    from springline.persistence.catalog.database import migration_config

    url = make_url(address)
    shown = redacted(url.render_as_string())
    is_file = url.get_backend_name() == "sqlite"
    if is_file and not Path(url.database or "").exists():
        return ok("catalog", f"{url.database}: made when it is first used")
    options = {"timeout": ANSWER_SECONDS} if is_file else {"connect_timeout": round(ANSWER_SECONDS)}
    try:
        engine = create_engine(
            f"sqlite:///file:{url.database}?mode=ro&uri=true" if is_file else url, connect_args=options
        )
        with engine.connect() as connection:
            revision = MigrationContext.configure(connection).get_current_revision()
            skew = 0.0 if is_file else float(connection.scalar(text("SELECT extract(epoch FROM now())"))) - time.time()
        engine.dispose()
    except (SQLAlchemyError, ImportError) as error:
        said = " ".join(str(getattr(error, "orig", None) or error).split())
        return problem(
            "catalog", f"{shown} does not answer: {redacted(said)}", "start it, or set SPRINGLINE_CATALOG_URL"
        )
    scripts = ScriptDirectory.from_config(migration_config())
    known = {script.revision for script in scripts.walk_revisions()}
    if revision is not None and revision not in known:
        remedy = "take the newer code again, or put back a backup from before it"
        return problem("catalog", f"{shown} is at revision {revision}, which this code does not know", remedy)
    if abs(skew) > MOST_SKEW:
        remedy = "have both machines ask a time server"
        return problem("catalog", f"{shown}: its clock differs from this machine's by {say_seconds(abs(skew))}", remedy)
    behind = (
        "" if revision == scripts.get_current_head() else "; its tables are brought up to date when it is next opened"
    )
    return ok("catalog", f"{shown} answers{behind}")


def check_store(name: str, uri: str, settings: Settings) -> Finding:
    """A store; a folder that is not made yet is well, and is not made now."""
    setting = "SPRINGLINE_CACHE_URI" if name == "cache" else "SPRINGLINE_UNDER_URI"
    parts = urlsplit(uri)
    if parts.scheme == "file":
        folder = Path(unquote(parts.path))
        if folder.is_dir():
            return ok(name, f"{folder} is there")
        parent = next(each for each in folder.parents if each.is_dir())
        if parent in (settings.home, folder.parent) or parent == settings.home.parent:
            return ok(name, f"{folder}: made when it is first used")
        return problem(name, f"{folder} is not there, nor is {folder.parent}", f"mount it, or set {setting}")
    if parts.hostname and parts.port and (why := unreached(parts.hostname, parts.port)):
        return problem(name, f"{redacted(uri)} does not answer: {why}", f"start it, or set {setting}")
    from springline.persistence.backends.registry import open_backend

    if why := open_backend(uri, "cache" if name == "cache" else "under", settings).why_away():
        return problem(name, redacted(why), f"start it, or set {setting}")
    return ok(name, f"{redacted(uri)} answers")


def check_kafka(cluster: Any, *, wanted: bool) -> Finding:
    """The brokers; nobody needs them where no stream job is declared."""
    from springline.spark_jobs.streaming.kafka.probe import refused

    if not (why := refused(cluster.servers)):
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            quiet: dict[str, Any] = {"log_level": 0, "error_cb": lambda error: None}
            AdminClient({**cluster.config(), **quiet}).list_topics(timeout=ANSWER_SECONDS)
        except KafkaException as error:
            why = error.args[0].str()
    if not why:
        return ok("kafka", f"{cluster.servers} answers")
    if not wanted:
        return note("kafka", f"{cluster.servers} does not answer ({why}); no stream job needs it")
    remedy = "`springline up kafka` starts one here; SPRINGLINE_KAFKA=HOST:PORT names another"
    return problem("kafka", f"{cluster.servers} does not answer: {redacted(why)}", remedy)


def unreached(host: str, port: int, seconds: float = ANSWER_SECONDS) -> str:
    """Why nobody can be reached at an address; empty where somebody can."""
    try:
        with socket.create_connection((host, port), seconds):
            return ""
    except (OSError, OverflowError) as error:
        return getattr(error, "strerror", None) or str(error)


def check_ports(settings: Any, servers: Sequence[str]) -> Iterator[Finding]:
    """The ports of the servers that are started here: each is free, or its server runs."""
    from springline.services.errors import PortInUseError, ServiceError
    from springline.services.process.ports import to_wait_for
    from springline.services.supervisor import Supervisor

    supervisor = Supervisor(settings.home)
    for server in servers:
        ports = _ports_of(server, settings)
        try:
            if (state := supervisor.state(server)).processes:
                yield ok("ports", f"{server}: {state.words} at {state.address}")
            elif busy := to_wait_for(server, ports):
                yield problem("ports", f"{server}: {busy}", "wait a minute")
            else:
                yield ok("ports", f"{server}: {', '.join(map(str, ports.values()))} free")
        except PortInUseError as error:
            said, _, remedy = str(error).partition(". End that process")
            yield problem("ports", said, f"End that process{remedy}")
        except ServiceError as error:
            yield problem("ports", str(error), "see the message")


def _ports_of(server: str, settings: Any) -> dict[str, int]:
    """The first port of each kind that a server takes, by its setting."""
    beginning = server.removeprefix("spark-").replace("-", "_")
    names = (
        name for name in type(settings).model_fields if name.startswith(f"{beginning}_") and name.endswith("_port")
    )
    return {f"SPRINGLINE_{name.upper()}": getattr(settings, name) for name in names}


def _folder_uri(settings: Settings) -> str:
    return f"file://{settings.home / 'under'}"
