"""Writes reference-api.md: every route of the HTTP API, and every shape of its requests and responses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from docs.generated_parts import non_empty_columns, table, wrap_prose

_ROOT = Path(__file__).resolve().parent.parent
_ASK = "import json, springline.airflow.api.app as api; print(json.dumps(api.make_app().openapi()))"
_INTRO = """\
# API

Every route of the REST API, which runs in Airflow's API server below `/springline`, with its parameters, request and
response. Users and tokens are Airflow's; [persistence.md](persistence.md#over-http) and
[streams.md](streams.md#over-http) explain how to get a token, and which permissions a route needs. The OpenAPI document
is at `/springline/api/v1/openapi.json`.

`make docs` writes this page from the routes in `plugins/springline_airflow/api/`.
"""
_WHERE = {"path": "in the path", "query": "after `?`"}
Schema = Mapping[str, Any]


def api_page(openapi: Schema) -> str:
    """Return the whole page, from the app's schema."""
    shapes: Schema = openapi["components"]["schemas"]
    routes = [
        _route(f"{method.upper()} {path}", route)
        for path, methods in sorted(openapi["paths"].items())
        for method, route in methods.items()
    ]
    used = (_shape(name, shape) for name, shape in sorted(shapes.items()))
    return "\n".join([_INTRO, "## Routes\n", *routes, "## Shapes\n", *used])


def openapi_of_the_api() -> Schema:
    """Return the app's schema from a process with a separate Airflow home: this process does not import Airflow."""
    with TemporaryDirectory(prefix="springline-docs-") as home:
        process = subprocess.run(
            [sys.executable, "-c", _ASK],
            env={**os.environ, "AIRFLOW_HOME": home, "PYTHONPATH": str(_ROOT / "src")},
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    schema: Schema = json.loads(process.stdout.splitlines()[-1])
    return schema


def _route(title: str, route: Schema) -> str:
    parts = [f"### `{title}`\n", f"{wrap_prose(route['description'])}\n"]
    rows = tuple(
        _parameter_row(given) for given in sorted(route.get("parameters", ()), key=lambda parameter: parameter["in"])
    )
    if rows:
        parts.append(f"{table(*non_empty_columns(('parameter', 'where', 'type', 'default', 'what it is'), rows))}\n")
    sentences = [f"Takes {_type(_content(route['requestBody']))}. "] if "requestBody" in route else []
    good = {status: answer for status, answer in route["responses"].items() if status < "300"}
    sentences += [f"Answers {status}{_answer(answer)}. " for status, answer in sorted(good.items())]
    bad = ", ".join(sorted(set(route["responses"]) - set(good)))
    sentences.append(f"Otherwise {bad}, with a [`Problem`](#problem).")
    return "\n".join([*parts, f"{wrap_prose(''.join(sentences))}\n"])


def _parameter_row(parameter: Schema) -> tuple[str, ...]:
    schema = parameter["schema"]
    default = "must be given" if parameter["required"] else _value(schema.get("default"))
    return f"`{parameter['name']}`", _WHERE[parameter["in"]], _type(schema), default, parameter.get("description", "")


def _answer(answer: Schema) -> str:
    content = _content(answer)
    return f" with {_type(content)}" if content else ", with nothing"


def _content(message: Schema) -> Schema:
    schema: Schema = message.get("content", {}).get("application/json", {}).get("schema", {})
    return schema


def _shape(name: str, shape: Schema) -> str:
    parts = [f"### {name}\n"]
    if "description" in shape:
        parts.append(f"{wrap_prose(shape['description'])}\n")
    if "enum" in shape:
        parts.append(f"One of {', '.join(f'`{value}`' for value in shape['enum'])}.\n")
    needed = shape.get("required", ())
    rows = tuple(
        (
            f"`{field}`",
            _type(field_schema),
            "" if field in needed else _value(field_schema.get("default")) or "may be left out",
            field_schema.get("description", ""),
        )
        for field, field_schema in shape.get("properties", {}).items()
    )
    if rows:
        parts.append(f"{table(*non_empty_columns(('field', 'type', 'default', 'what it is'), rows))}\n")
    return "\n".join(parts)


def _type(schema: Schema) -> str:
    """Return a type in words; a shape by its name, with a link to it."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[`{name}`](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind = str(schema.get("type", "anything"))
    if kind == "array":
        return f"list of {_type(schema['items'])}" if schema.get("items") else "list"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"{_type(values)} by name" if isinstance(values, dict) and values else "object"
    bounds = ", ".join(_bounds(schema))
    return f"{kind} ({bounds})" if bounds else kind


def _bounds(schema: Schema) -> Iterator[str]:
    for key, label in (("minimum", "from"), ("exclusiveMinimum", "above"), ("maximum", "at most")):
        if key in schema:
            yield f"{label} {schema[key]:,.12g}"


def _value(value: object) -> str:
    return "" if value in (None, "", []) else f"`{json.dumps(value)}`"
