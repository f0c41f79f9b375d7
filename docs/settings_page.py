"""Writes settings.md: every setting of every package, from the classes that declare them."""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from docs.generated_parts import table
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.profile import ProfiledSettings
from springline.persistence.settings import Settings
from springline.persistence.text.formatting import format_bytes, format_seconds
from springline.services.settings import ServiceSettings
from springline.spark_jobs.settings import JobSettings
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.sources.settings import SchemaRegistrySettings

_ROOT = Path(__file__).resolve().parent.parent
CLASSES: tuple[tuple[str, type[ProfiledSettings]], ...] = (
    ("Datasets and how they are persisted (`persistence`)", Settings),
    ("Spark and the operations (`spark_jobs`)", JobSettings),
    ("Streams (`spark_jobs/streaming`)", StreamSettings),
    ("Schemas of messages (`spark_jobs/streaming/sources`)", SchemaRegistrySettings),
    ("Monitoring (`persistence/monitoring`)", MonitoringSettings),
    ("The servers that are started here (`services`)", ServiceSettings),
)
_INTRO = """\
# Settings

Every setting has a default. To change one, set its environment variable before you start a process:

```sh
SPRINGLINE_CACHE_CAPACITY=8GB make demo
```

Settings that belong together can be in a file, a *profile*: `SPRINGLINE_PROFILE` is the name of a file in the folder
`profiles/`, or a path. `profiles/cluster.env` switches the whole platform to PostgreSQL, Kafka, HDFS and Alluxio.
Without `SPRINGLINE_PROFILE`, `profiles/default.env` is read if it exists; that of the checkout loads the example, the
workflow over the flights.

```sh
make demo PROFILE=cluster
SPRINGLINE_PROFILE=cluster springline dataset list
```

A project has its settings in `springline.toml`, in lower case and without the prefix. A command finds the file in its
working directory, or in the nearest folder above it. `springline init` creates one:

```toml
operations = ["pipeline"]  # modules beside this file
cache_capacity = "8GB"
landing_uri = "landing"    # a relative path starts at the folder of this file
```

Then `var/`, `streams.toml` and `alerts.toml` are expected beside it, and modules are imported from its folder. The
environment takes precedence over a profile, a profile over the project. For a process with another working directory,
such as an Airflow of your own, set `SPRINGLINE_PROJECT` to the path of the project's folder.

A process reads its settings when it starts, so restart the servers (`make stop`, `make demo`) after a change.
Sizes may have a unit (`8GB`, `7.5GiB`; powers of 1000, with an i of 1024), the values of a list are separated by commas
(`SPRINGLINE_POLICY_WEIGHTS=-4,-2,1,0.1`), settings of another program are a JSON object
(`SPRINGLINE_SPARK_CONF='{"spark.sql.shuffle.partitions": "8"}'`). For an unknown variable `SPRINGLINE_…`, a process
logs a warning with the most similar name when it starts. `springline config list` prints the values in effect and where
they come from; `springline config check` reports invalid ones.

`make docs` writes this page from the classes of the settings.
"""


def settings_page() -> str:
    """Return the whole page."""
    parts = [_INTRO]
    listed_names: set[str] = set()
    for title, declared in CLASSES:
        rows = [
            (f"`{declared.model_config['env_prefix']}{name.upper()}`", _default(name, field), declared.help_of(name))
            for name, field in declared.model_fields.items()
            if name not in listed_names  # the home folder is the same for all
        ]
        listed_names.update(declared.model_fields)
        summary = (inspect.getdoc(declared) or "").partition("\n\n")[0]
        parts.append(f"## {title}\n\n{summary}\n\n{table(('setting', 'default', 'what it is'), rows)}\n")
    parts.append(f"## Airflow Connections\n\n{_connections()}\n")
    return "\n".join(parts)


def _default(name: str, field: FieldInfo) -> str:
    default: Any = field.default
    if field.default_factory is not None:
        return "`var/` in the project" if name == "home" else "empty"
    if default is PydanticUndefined:
        return "none: it must be given"
    if default in ("", None, (), {}) or isinstance(default, SecretStr):
        return "empty"
    if isinstance(default, str):
        return f"`{default}`"
    return f"`{json.dumps(default)}`{_format_large(name, field.description or '', default)}"


def _format_large(name: str, description: str, value: Any) -> str:
    """Return a large number in readable units."""
    if not isinstance(value, int | float) or value < 1000:
        return ""
    if description.startswith("Bytes") or name.endswith("_bytes"):
        return f" ({format_bytes(value)})"
    return f" ({format_seconds(value)})" if name.endswith("_seconds") else ""


def _connections() -> str:
    """Return the docstring of the module that reads the Connections; not imported, since it needs Airflow."""
    module = _ROOT / "plugins" / "springline_airflow" / "connections.py"
    first, _, rest = (ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or "").partition("\n")
    return f"Tasks that run under Airflow ask its Connections first.\n{first}\n{rest}"
