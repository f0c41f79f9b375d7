"""Path templates such as `etl/{ds}/clean`: which fields they have, and the path that they give."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter

from springline.persistence.errors import InvalidPathError
from springline.persistence.model.dataset import checked_path
from springline.spark_jobs.errors import DeclarationError, ParameterError


def fields_of(template: str) -> tuple[str, ...]:
    """The fields of `template`, each once, in order; raises `DeclarationError` for anything but plain `{name}`."""
    found: dict[str, None] = {}
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise DeclarationError(f"path template {template!r}: {error}") from error
    for _, name, spec, conversion in parts:
        if name is None:
            continue
        if not name.isidentifier() or spec or conversion:
            raise DeclarationError(f"path template {template!r}: write a field as {{name}}, nothing more")
        found[name] = None
    try:
        checked_path(template.format_map(dict.fromkeys(found, "x")))
    except InvalidPathError as error:
        raise DeclarationError(f"path template {template!r}: {error}") from error
    return tuple(found)


def shape_of(template: str) -> str:
    """`template` with its fields' names left out: two templates of one shape give the same paths."""
    return template.format_map(dict.fromkeys(fields_of(template), "{}"))


def fill(template: str, params: Mapping[str, str]) -> str:
    """The path that `template` gives for `params`; raises `ParameterError` or `InvalidPathError`."""
    for name in fields_of(template):
        if name not in params:
            raise ParameterError(f"path template {template!r}: no value was given for {name!r}")
        if not params[name] or "/" in params[name]:
            raise ParameterError(f"path template {template!r}: {params[name]!r} cannot stand for {name!r}")
    return checked_path(template.format_map(params))
