"""S3Mock: a server of S3's protocol for this machine, its objects in a folder."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

from springline.services.packages.jars import Jars
from springline.services.packages.java import find_java
from springline.services.server import ANSWER_SECONDS, Process, Server
from springline.services.settings import ServiceSettings, conf_path

_MAIN = "org.springframework.boot.loader.launch.JarLauncher"
BUCKET = "springline"  # exists from the first start


def s3(settings: ServiceSettings) -> Server:
    """Describe the server as configured by `settings`."""
    folder = settings.home / "s3"
    address = f"http://127.0.0.1:{settings.s3_port}"
    command = find_java(os.environ, settings.home).command(
        _MAIN,
        heap=settings.s3_heap,
        classpath=(settings.jars_folder / "s3" / "*",),
        options=(
            "-Dserver.address=127.0.0.1",
            "-Dserver.port=0",  # of https, which nobody uses
            f"-Dhttp.port={settings.s3_port}",
            f"-Dspring.main.sources=file:{conf_path('s3') / 'loopback.xml'}",
            f"-Dcom.adobe.testing.s3mock.store.root={folder / 'data'}",
            "-Dcom.adobe.testing.s3mock.store.retainFilesOnExit=true",
            f"-Dcom.adobe.testing.s3mock.store.initialBuckets={BUCKET}",
        ),
    )
    return Server(
        name="s3",
        address=address,
        folder=folder,
        processes=(Process("server", command),),
        environment={},
        ports={"SPRINGLINE_S3_PORT": settings.s3_port},
        readiness_problem=partial(_readiness_problem, address),
        prepare=partial(_prepare, settings, folder),
    )


def _prepare(settings: ServiceSettings, folder: Path) -> None:
    Jars(settings).folder("s3")
    (folder / "data").mkdir(parents=True, exist_ok=True)


def _readiness_problem(address: str) -> str:
    request = urllib.request.Request(f"{address}/{BUCKET}", method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS):
            return ""
    except urllib.error.HTTPError as error:
        return f"it answers {error.code} for its bucket"
    except OSError:
        return "it does not answer"
