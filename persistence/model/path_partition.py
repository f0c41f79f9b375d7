"""Splits a dataset's path into its template and its partition: `etl/2013-01-05/clean` is `etl/{ds}/clean`, 2013-01-05.

Datasets of one template are made by the same stage of a workflow, one for each day, hour, or other partition.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_FIELD = re.compile(r"\{(\w+)\}")
_HIVE = re.compile(r"([A-Za-z][A-Za-z0-9_.-]*)=(.+)")
_DATE = r"(?:19|20)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_TIME = rf"{_DATE}(?:T\d\d(?:[.-]?\d\d){{0,2}}Z?)?"
_COMPACT = r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
_DATED = re.compile(rf"(?<![A-Za-z0-9])(?:{_TIME}|{_COMPACT})(?![A-Za-z0-9])")
_NUMBER = re.compile(r"\d+")
_RUN_TIME = re.compile(rf"__({_DATE})T(\d\d:\d\d(?::\d\d)?)")


class PathPartition(NamedTuple):
    """The template of a path, and the values of its fields, joined by `/`; empty if the template has no fields."""

    template: str
    partition: str


def split_path(path: str, template: str = "") -> PathPartition:
    """Split a path by the template that its operation declares, or by what looks like a partition in the path itself.

    Without a fitting template, a part `name=value` (as Hive writes partitions) becomes `name={name}`, a date
    `{date}`, and a part of digits `{number}`.

    Args:
        path: of a dataset.
        template: with fields as `{name}`; empty: none is declared.

    Example:
        >>> split_path("etl/2013-01-05/clean", "etl/{ds}/clean")
        PathPartition(template='etl/{ds}/clean', partition='2013-01-05')
        >>> split_path("sales/country=DE/2013-01-05")
        PathPartition(template='sales/country={country}/{date}', partition='DE/2013-01-05')
    """
    if template and (match := _pattern(template).fullmatch(path)):
        return PathPartition(template, "/".join(match.groups()))
    values: list[str] = []
    parts = [_split_part(part, values) for part in path.split("/")]
    return PathPartition("/".join(parts), "/".join(dict.fromkeys(values)))


def match_template(path: str, template: str) -> dict[str, str] | None:
    """Return the values of the fields of a template in a path, by name; None if it is not a path of the template.

    Example:
        >>> match_template("etl/2013-01-05/clean", "etl/{ds}/clean"), match_template("etl/clean", "etl/{ds}/clean")
        ({'ds': '2013-01-05'}, None)
    """
    match = _pattern(template).fullmatch(path)
    return None if match is None else match.groupdict()


def partition_of_run(run_id: str) -> str:
    """Return the time in the id of one of Airflow's DAG runs, without a time of midnight; empty if it has none.

    Example:
        >>> partition_of_run("scheduled__2013-01-05T00:00:00+00:00")
        '2013-01-05'
    """
    match = _RUN_TIME.search(run_id)
    if match is None:
        return ""
    day, clock = match.groups()
    return day if clock in ("00:00", "00:00:00") else f"{day}T{clock}"


@lru_cache(maxsize=4096)
def _pattern(template: str) -> re.Pattern[str]:
    """Return the pattern of a template's paths, with a group for each field."""
    pattern, end, names = "", 0, set()
    for field in _FIELD.finditer(template):
        name = field[1]
        pattern += re.escape(template[end : field.start()])
        pattern += f"(?P={name})" if name in names else f"(?P<{name}>[^/]+)"
        names.add(name)
        end = field.end()
    return re.compile(pattern + re.escape(template[end:]))


def _split_part(part: str, values: list[str]) -> str:
    """Return the template of one part of a path, and append the values of its fields to `values`."""
    if hive := _HIVE.fullmatch(part):
        values.append(hive[2])
        return f"{hive[1]}={{{hive[1]}}}"
    if _DATED.search(part):
        values.extend(_DATED.findall(part))
        return _DATED.sub("{date}", part)
    if _NUMBER.fullmatch(part):
        values.append(part)
        return "{number}"
    return part
