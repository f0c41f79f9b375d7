"""Path templates such as `etl/{ds}/clean`: their fields, and the paths that they produce."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter

from springline.persistence.errors import InvalidPathError
from springline.persistence.model.dataset import validate_path
from springline.spark_jobs.errors import DeclarationError, ParameterError


def fields_of(template: str) -> tuple[str, ...]:
    """Return the fields of `template`, each once, in order; raises `DeclarationError` unless all are plain `{name}`."""
    fields: dict[str, None] = {}
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise DeclarationError(f"path template {template!r}: {error}") from error
    for _, name, spec, conversion in parts:
        if name is None:
            continue
        if not name.isidentifier() or spec or conversion:
            raise DeclarationError(f"path template {template!r}: write a field as {{name}} only")
        fields[name] = None
    try:
        validate_path(template.format_map(dict.fromkeys(fields, "x")))
    except InvalidPathError as error:
        raise DeclarationError(f"path template {template!r}: {error}") from error
    return tuple(fields)


def shape_of(template: str) -> str:
    """Return `template` without the names of its fields: templates of equal shape produce the same paths."""
    return template.format_map(dict.fromkeys(fields_of(template), "{}"))


def fill_template(template: str, params: Mapping[str, str]) -> str:
    """Return the path that `template` produces for `params`; raises `ParameterError` or `InvalidPathError`."""
    for name in fields_of(template):
        if name not in params:
            raise ParameterError(f"path template {template!r}: no value for {name!r}")
        if not params[name] or "/" in params[name]:
            raise ParameterError(f"path template {template!r}: {params[name]!r} is not a valid value of {name!r}")
    return validate_path(template.format_map(params))
