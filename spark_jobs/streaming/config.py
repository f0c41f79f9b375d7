"""A job's table in the file that declares jobs: keys common to all kinds, and validation with error messages."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from springline.persistence.errors import ExtensionError
from springline.persistence.extensions import Extensions
from springline.spark_jobs.streaming.errors import InvalidJobError

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")


@dataclass(frozen=True)
class JobTable:
    """The table of one job in streams.toml; its errors name the file and the job.

    Args:
        where: the file and the job, for error messages.
        name: the job's name.
        table: the keys and values of the table.

    Example:
        >>> from pathlib import Path
        >>> table = JobTable.of(Path("streams.toml"), "words", {"topic": "lines", "parallelism": 4})
        >>> table.check({"parallelism"})
        >>> table.topic, table.number("parallelism", 1), table.seconds("emit_interval", 5.0)
        ('lines', 4, 5.0)
        >>> table.flag("second_application")
        False
    """

    where: str
    name: str
    table: Mapping[str, Any]

    @staticmethod
    def of(file: Path, name: str, table: Any) -> JobTable:
        """Return the table of the job `name` in `file`; raises `InvalidJobError`."""
        where = f"{file}, job {name!r}"
        if not _NAME.fullmatch(name):
            raise InvalidJobError(f"{where}: a name is of small letters, digits, dashes and underscores, at most 41")
        if not isinstance(table, dict):
            raise InvalidJobError(f"{where}: it must be a table")
        return JobTable(where, name, table)

    def check(self, allowed: Collection[str], *, topic: bool = True) -> None:
        """Raise `InvalidJobError` for a key that the kind does not have, and for a missing topic."""
        common_keys = {"kind", "backpressure", "signal_channel", *(["topic"] if topic else [])}
        if topic and (not isinstance(self.table.get("topic"), str) or not self.table["topic"]):
            raise InvalidJobError(f"{self.where}: it needs a topic")
        if unknown_keys := sorted(set(self.table) - common_keys - set(allowed)):
            allowed_text = ", ".join(sorted({*allowed, *common_keys}))
            raise InvalidJobError(f"{self.where}: {', '.join(unknown_keys)} means nothing here; known: {allowed_text}")

    @property
    def kind(self) -> str:
        """The kind of the job; empty if the table does not set it. Raises `InvalidJobError`."""
        if not isinstance(kind := self.table.get("kind", ""), str):
            raise InvalidJobError(f"{self.where}: kind = {kind!r}; write the name of a kind of jobs")
        return kind

    @property
    def topic(self) -> str:
        """The topic that the job reads, for kinds that require one."""
        return str(self.table["topic"])

    @property
    def latest(self) -> bool:
        """Whether a job that never ran starts from the latest messages."""
        return self.choice("start_from", ("earliest", "latest")) == "latest"

    def choice(self, key: str, choices: Collection[str]) -> str:
        """Return the value of `key`, one of `choices`; the default is the first. Raises `InvalidJobError`."""
        if (value := self.table.get(key, next(iter(choices)))) not in choices:
            raise InvalidJobError(f"{self.where}: {key} = {value!r}; write {' or '.join(choices)}")
        return str(value)

    def extension(self, key: str, extensions: Extensions, default: str) -> str:
        """Return the name of an extension of an installed package; checked only if the table sets the key.

        Raises `InvalidJobError`.
        """
        if key not in self.table:
            return default
        try:
            return extensions.check(str(self.table[key]))
        except ExtensionError as error:
            raise InvalidJobError(f"{self.where}: {key}: {error}") from error

    def flag(self, key: str) -> bool:
        """Return a boolean; false by default. Raises `InvalidJobError`."""
        if not isinstance(value := self.table.get(key, False), bool):
            raise InvalidJobError(f"{self.where}: {key} = {value!r}; write true or false")
        return value

    def number(self, key: str, default: int, *, most: int | None = None) -> int:
        """Return a whole number above 0; raises `InvalidJobError`."""
        value = self.table.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InvalidJobError(f"{self.where}: {key} must be a whole number above 0")
        if most is not None and value > most:
            raise InvalidJobError(f"{self.where}: {key} = {value}; {most} at most")
        return value

    def seconds(self, key: str, default: float) -> float:
        """Return a number of seconds above 0; raises `InvalidJobError`."""
        value = self.table.get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise InvalidJobError(f"{self.where}: {key} must be a number of seconds above 0")
        return float(value)
