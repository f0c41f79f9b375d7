"""Small files of JSON that one process writes and others look at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from springline.spark_jobs.streaming.half_files import half_in


def write_json(path: Path, told: Any) -> None:
    """Replace a file as a whole, so that nobody reads half of it; raises `NoRoom`."""
    with half_in(path.parent) as half:
        half.write_text(json.dumps(told))
        half.replace(path)


def read_json(path: Path) -> Any:
    """What a file says; None if there is none."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
