"""What commands about datasets are given, and the platform that they open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from persistence.platform import Platform, open_platform

Json = Annotated[bool, typer.Option("--json", help="Print JSON")]
Dry = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing")]


@contextmanager
def opened() -> Iterator[Platform]:
    """The platform that the settings describe; what is changed is noted as made by the command line."""
    platform = open_platform(who=f"command line of {os.environ.get('USER') or os.getuid()}")
    try:
        yield platform
    finally:
        platform.close()
