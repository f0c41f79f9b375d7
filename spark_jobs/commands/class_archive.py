"""The command that creates the class archive, with which Spark starts in half the time."""

from __future__ import annotations

from springline.persistence.commands.arguments import Json
from springline.persistence.text.formatting import format_bytes
from springline.persistence.text.terminal import print_result, progress
from springline.spark_jobs.jvm.class_archive import make_archive
from springline.spark_jobs.settings import JobSettings


def class_archive(as_json: Json = False) -> None:
    """Create the archive of Spark's classes, with which its JVM starts in half the time (part of `make setup`)."""
    with progress("archiving Spark's classes", quiet=as_json):
        archive = make_archive(JobSettings().home)
    size = archive.stat().st_size
    print_result(as_json, {"path": str(archive), "bytes": size}, f"{archive}: {format_bytes(size)}")
