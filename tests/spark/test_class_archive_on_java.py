"""The archive of Spark's classes on the real Java: a JVM of Spark's takes its classes from it."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from springline.spark_jobs.jvm.class_archive import class_sharing_options, make_archive
from springline.spark_jobs.jvm.java import find_java, spark_home


def test_a_jvm_of_sparks_takes_its_classes_from_the_archive(tmp_path: Path) -> None:
    java = find_java(os.environ, tmp_path).home
    make_archive(tmp_path)  # unless `make setup` has
    submit = spark_home() / "bin" / "spark-submit"
    log = tmp_path / "classes"
    options = f'{class_sharing_options(java)} "-Xlog:class+load:file={log}"'
    command = [str(submit), "--driver-java-options", options, "--version"]
    environment = {**os.environ, "JAVA_HOME": str(java), "SPARK_HOME": str(spark_home())}
    subprocess.run(command, env=environment, capture_output=True, timeout=120, check=True)
    loaded = [line for line in log.read_text().splitlines() if " org.apache.spark." in line and "$Lambda" not in line]
    shared = [line for line in loaded if "shared objects file" in line]
    assert len(shared) > 100
    assert len(shared) > 0.9 * len(loaded), shlex.join(command)
