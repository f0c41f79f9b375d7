"""A job's table in the file that declares jobs: what tables of all kinds have, with words for what is wrong in one."""

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
class Declared:
    """The table of one job in streams.toml, with errors that name the place.

    Args:
        where: the file and the job, for errors.
        name: the job's.
        table: what stands below it.

    Example:
        >>> from pathlib import Path
        >>> table = Declared.of(Path("streams.toml"), "words", {"topic": "lines", "units": 4})
        >>> table.check({"units"})
        >>> table.topic, table.number("units", 1), table.seconds("every", 5.0), table.flag("apart")
        ('lines', 4, 5.0, False)
    """

    where: str
    name: str
    table: Mapping[str, Any]

    @staticmethod
    def of(file: Path, name: str, table: Any) -> Declared:
        """Raises `InvalidJobError`."""
        where = f"{file}, job {name!r}"
        if not _NAME.fullmatch(name):
            raise InvalidJobError(f"{where}: a name is of small letters, digits, dashes and underscores, at most 41")
        if not isinstance(table, dict):
            raise InvalidJobError(f"{where}: it must be a table")
        return Declared(where, name, table)

    def check(self, known: Collection[str], *, topic: bool = True) -> None:
        """Raises `InvalidJobError` for a key that its kind does not have, and for a topic that is missing."""
        every = {"kind", "backpressure", "control", *(["topic"] if topic else [])}
        if topic and (not isinstance(self.table.get("topic"), str) or not self.table["topic"]):
            raise InvalidJobError(f"{self.where}: it needs a topic")
        if odd := sorted(set(self.table) - every - set(known)):
            meant = ", ".join(sorted({*known, *every}))
            raise InvalidJobError(f"{self.where}: {', '.join(odd)} means nothing here; known: {meant}")

    @property
    def kind(self) -> str:
        """The kind of the job; empty where the table names none. Raises `InvalidJobError`."""
        if not isinstance(kind := self.table.get("kind", ""), str):
            raise InvalidJobError(f"{self.where}: kind = {kind!r}; write the name of a kind of jobs")
        return kind

    @property
    def topic(self) -> str:
        """What the job reads, of a kind that needs to be told."""
        return str(self.table["topic"])

    @property
    def latest(self) -> bool:
        """Whether a job that never ran begins with the latest messages."""
        return self.choice("from", ("earliest", "latest")) == "latest"

    def choice(self, key: str, choices: Collection[str]) -> str:
        """One of some words, the first where nothing is said; raises `InvalidJobError`."""
        if (word := self.table.get(key, next(iter(choices)))) not in choices:
            raise InvalidJobError(f"{self.where}: {key} = {word!r}; write {' or '.join(choices)}")
        return str(word)

    def extension(self, key: str, among: Extensions, usual: str) -> str:
        """The name of something that an installed package brings, looked up only where it is said.

        Raises `InvalidJobError`.
        """
        if key not in self.table:
            return usual
        try:
            return among.check(str(self.table[key]))
        except ExtensionError as error:
            raise InvalidJobError(f"{self.where}: {key}: {error}") from error

    def flag(self, key: str) -> bool:
        """Whether something is wanted, false where nothing is said; raises `InvalidJobError`."""
        if not isinstance(value := self.table.get(key, False), bool):
            raise InvalidJobError(f"{self.where}: {key} = {value!r}; write true or false")
        return value

    def number(self, key: str, default: int, *, most: int | None = None) -> int:
        """A whole number above 0; raises `InvalidJobError`."""
        value = self.table.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InvalidJobError(f"{self.where}: {key} must be a whole number above 0")
        if most is not None and value > most:
            raise InvalidJobError(f"{self.where}: {key} = {value}; {most} at most")
        return value

    def seconds(self, key: str, default: float) -> float:
        """A number above 0; raises `InvalidJobError`."""
        value = self.table.get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise InvalidJobError(f"{self.where}: {key} must be a number of seconds above 0")
        return float(value)
