"""Alluxio: master, job master, proxy, and workers, each with a job worker and a ramdisk."""

from __future__ import annotations

import hashlib
import os
from functools import partial
from pathlib import Path

from springline.services.alluxio_api import readiness_problem
from springline.services.packages.jars import Jars
from springline.services.packages.java import ServerJava, find_java, spark_home
from springline.services.server import InitStep, Process, Server
from springline.services.settings import ServiceSettings, conf_path

_HOST = "127.0.0.1"
_PORTS_EACH = 5  # per worker: RPC, web; of its job worker: RPC, data, web
_BOUND = (
    *("master", "master.web", "job.master", "job.master.web", "proxy.web"),
    *("worker", "worker.web", "job.worker", "job.worker.web"),
)
_OPENED = ("java.lang", "java.nio", "java.util", "sun.nio.ch", "jdk.internal.misc")


def alluxio(settings: ServiceSettings) -> Server:
    """Describe the server as configured by `settings`."""
    folder = settings.home / "alluxio"
    java = find_java(os.environ, settings.home)
    numbers = range(1, settings.alluxio_workers + 1)
    on_hdfs = settings.alluxio_under_uri.startswith("hdfs://")
    run = partial(_command, settings, java, folder)
    return Server(
        name="alluxio",
        address=f"alluxio://{_HOST}:{settings.alluxio_port}",
        folder=folder,
        processes=(
            Process("master", run("alluxio.master.AlluxioMaster", settings.alluxio_heap)),
            Process("job-master", run("alluxio.master.AlluxioJobMaster", "128m")),
            *(
                Process(f"worker-{number}", run("alluxio.worker.AlluxioWorker", settings.alluxio_heap, number))
                for number in numbers
            ),
            *(
                Process(f"job-worker-{number}", run("alluxio.worker.AlluxioJobWorker", "128m", number))
                for number in numbers
            ),
            Process("proxy", run("alluxio.proxy.AlluxioProxy", "128m")),
        ),
        environment={
            # Otherwise it queries a cloud metadata address for a region, and waits for the timeout.
            "AWS_EC2_METADATA_DISABLED": "true",
        },
        ports={
            "SPRINGLINE_ALLUXIO_PORT": settings.alluxio_port,
            "SPRINGLINE_ALLUXIO_WEB_PORT": settings.alluxio_web_port,
            "SPRINGLINE_ALLUXIO_JOB_PORT": settings.alluxio_job_port,
            "SPRINGLINE_ALLUXIO_JOB_PORT + 1": settings.alluxio_job_port + 1,
            "SPRINGLINE_ALLUXIO_PROXY_PORT": settings.alluxio_proxy_port,
            **{
                f"SPRINGLINE_ALLUXIO_WORKER_PORT{f' + {offset}' if offset else ''}": settings.alluxio_worker_port
                + offset
                for offset in range(_PORTS_EACH * settings.alluxio_workers)
            },
        },
        readiness_problem=partial(
            readiness_problem, settings.alluxio_web_port, settings.alluxio_proxy_port, settings.alluxio_workers
        ),
        prepare=partial(_prepare, settings, folder),
        init_steps=(
            InitStep(
                "format",
                (*run("alluxio.cli.Format", "128m"), "master"),
                folder / "formatted",
                output_folder=_journal(folder),
            ),
        ),
        after=("hdfs",) if on_hdfs else (),
    )


def ramdisk(settings: ServiceSettings) -> Path:
    """Return the folder with the workers' ramdisks, one folder each."""
    if settings.alluxio_ramdisk:
        return Path(settings.alluxio_ramdisk)
    memory = Path("/dev/shm")
    mark = hashlib.sha256(os.fsencode(settings.home)).hexdigest()[:12]
    return memory / f"springline-{mark}-alluxio" if memory.is_dir() else settings.home / "alluxio" / "memory"


def _journal(folder: Path) -> Path:
    return folder / "journal"


def _properties(settings: ServiceSettings, folder: Path, number: int) -> dict[str, object]:
    """Return the properties that `alluxio-site.properties` does not set; `number` is the number of the worker."""
    first = settings.alluxio_worker_port + _PORTS_EACH * (number - 1)
    return {
        **{f"{part}.hostname": _HOST for part in ("master", "job.master", "worker", "job.worker", "proxy", "user")},
        **{f"{part}.bind.host": _HOST for part in _BOUND},
        "master.rpc.port": settings.alluxio_port,
        "master.web.port": settings.alluxio_web_port,
        "job.master.rpc.port": settings.alluxio_job_port,
        "job.master.web.port": settings.alluxio_job_port + 1,
        "proxy.web.port": settings.alluxio_proxy_port,
        "worker.rpc.port": first,
        "worker.web.port": first + 1,
        "job.worker.rpc.port": first + 2,
        "job.worker.data.port": first + 3,
        "job.worker.web.port": first + 4,
        "worker.ramdisk.size": settings.alluxio_memory,
        "worker.tieredstore.level0.dirs.path": ramdisk(settings) / f"worker-{number}",
        "worker.tieredstore.level0.dirs.mediumtype": "MEM",
        "master.journal.folder": _journal(folder),
        "master.mount.table.root.ufs": settings.alluxio_under_uri or folder / "under",
        # As an HDFS client, Alluxio would request three copies by default.
        "master.mount.table.root.option.dfs.replication": settings.hdfs_replication,
        "home": folder,
        "work.dir": folder,
        "tmp.dirs": folder / "tmp",
        "logs.dir": folder / "logs",
        "conf.dir": conf_path("alluxio"),
    }


def _command(
    settings: ServiceSettings, java: ServerJava, folder: Path, main: str, heap: str, number: int = 1
) -> tuple[str, ...]:
    classpath: list[str | Path] = [settings.jars_folder / "alluxio" / "*"]
    if settings.alluxio_under_uri.startswith("hdfs://"):
        classpath += [settings.jars_folder / "alluxio-hdfs" / "*", *(spark_home() / "jars").glob("hadoop-client-*.jar")]
    return java.command(
        main,
        heap=heap,
        classpath=classpath,
        options=(
            *(f"-Dalluxio.{key}={value}" for key, value in _properties(settings, folder, number).items()),
            f"-Dlog4j2.configurationFile={conf_path('log4j2.properties').as_uri()}",
            f"-XX:MaxDirectMemorySize={heap}",
            "-Dorg.apache.jasper.compiler.disablejsr199=true",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
        ),
    )


def _prepare(settings: ServiceSettings, folder: Path) -> None:
    Jars(settings).folder("alluxio")
    if settings.alluxio_under_uri.startswith("hdfs://"):
        Jars(settings).folder("alluxio-hdfs")
    for own in ("under", "logs"):
        (folder / own).mkdir(exist_ok=True)
    for number in range(1, settings.alluxio_workers + 1):
        worker_folder = ramdisk(settings) / f"worker-{number}"
        worker_folder.mkdir(parents=True, exist_ok=True)
        worker_folder.parent.chmod(0o700)
