"""Keeps secrets among Spark's settings out of the arguments of its process, which everybody on the machine can list.

PySpark hands every setting to the process that it starts as `--conf name=value`. Those that Spark itself would redact
go by a file of the owner's alone instead, which is removed once Spark has started.
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
def kept_from_arguments(conf: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The settings to hand to PySpark while inside; it must start there. A Spark that runs already takes them all."""
    secret = {name: str(value) for name, value in conf.items() if SECRET.search(name)}
    if not secret or SparkContext._gateway is not None:
        yield dict(conf)
        return
    before = os.environ.get(_ARGUMENTS)
    with TemporaryDirectory(prefix="springline-spark-") as folder:  # for its owner alone, as the file is
        file = Path(folder) / "secret.properties"
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as out:
            out.writelines(f"{_escaped(name)}={_escaped(value)}\n" for name, value in secret.items())
        # Given a file, it would leave out the one that it reads by itself.
        ours = f"--load-spark-defaults --properties-file {shlex.quote(str(file))}"
        os.environ[_ARGUMENTS] = f"{ours} {before or 'pyspark-shell'}"
        try:
            yield {name: value for name, value in conf.items() if name not in secret}
        finally:
            if before is None:
                del os.environ[_ARGUMENTS]
            else:
                os.environ[_ARGUMENTS] = before


def _escaped(text: str) -> str:
    """As Java's properties write it: every letter that could mean something else by its number."""
    codes = text.encode("utf-16-be")
    units = (int.from_bytes(codes[at : at + 2], "big") for at in range(0, len(codes), 2))
    return "".join(chr(unit) if unit < 128 and chr(unit).isalnum() else f"\\u{unit:04x}" for unit in units)
