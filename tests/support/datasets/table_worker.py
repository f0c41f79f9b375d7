"""A persister in a process of its own, to be killed at any time: it persists, and puts datasets into their tables.

python -m tests.support.datasets.table_worker HOME CACHE TABLES
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

from springline.persistence.platform import open_platform
from springline.persistence.settings import Settings


def main(home: str, cache: str, tables: str) -> None:
    """Work until nothing is left to do, and say so by a line."""
    settings = Settings(
        home=Path(home), cache_uri=f"file://{cache}", tables=json.loads(tables), lease_seconds=0.5, retry_seconds=0
    )
    with closing(open_platform(settings, actor="a worker that is killed")) as platform:
        print("ready", flush=True)
        platform.table_writer.poll_seconds = 0.0
        while True:
            is_idle = platform.persister.step() is None and platform.table_writer.step() is None
            left = [platform.table_writer.status(target).pending for target in platform.table_writer.targets]
            if is_idle and not platform.claims.depth() and not any(left):
                break
    print("finished", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
