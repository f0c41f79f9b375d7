"""Keeps secrets in Spark's settings out of the arguments of its process, which every user of the machine can list.

PySpark passes every setting to the process that it starts as `--conf name=value`. Settings that Spark itself would
redact are passed in a file that only its owner can read instead, which is removed once Spark has started.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark import SparkContext

SECRET = re.compile(r"(?i)secret|password|token|credential|access[._-]?key|api[._-]?key|jaas")
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"


@contextmanager
def hide_secret_conf(conf: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the settings to pass to PySpark, which must start inside the context; a running Spark receives them all."""
    secret = {name: str(value) for name, value in conf.items() if SECRET.search(name)}
    if not secret or SparkContext._gateway is not None:
        yield dict(conf)
        return
    previous_arguments = os.environ.get(_ARGUMENTS)
    with TemporaryDirectory(prefix="springline-spark-") as folder:  # readable by its owner only, like the file
        file = Path(folder) / "secret.properties"
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as out:
            out.writelines(f"{_escape_property(name)}={_escape_property(value)}\n" for name, value in secret.items())
        # With a properties file, Spark would not read its defaults file.
        file_options = f"--load-spark-defaults --properties-file {shlex.quote(str(file))}"
        os.environ[_ARGUMENTS] = f"{file_options} {previous_arguments or 'pyspark-shell'}"
        try:
            yield {name: value for name, value in conf.items() if name not in secret}
        finally:
            if previous_arguments is None:
                del os.environ[_ARGUMENTS]
            else:
                os.environ[_ARGUMENTS] = previous_arguments


def _escape_property(text: str) -> str:
    """Escape a text for a Java properties file: every non-alphanumeric character by its code."""
    codes = text.encode("utf-16-be")
    units = (int.from_bytes(codes[index : index + 2], "big") for index in range(0, len(codes), 2))
    return "".join(chr(unit) if unit < 128 and chr(unit).isalnum() else f"\\u{unit:04x}" for unit in units)
