"""What commands about datasets are given, and the platform that they open."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from springline.persistence.engine.runner import NoRunner
from springline.persistence.errors import NeverWrittenError, UsageError
from springline.persistence.platform import Platform, open_platform
from springline.persistence.text.formatting import parse_bytes, say_near

NOT_SO = 3  # exit status: the command is done, and what was asked about is not so
_NEIGHBOURS = 1000  # datasets among which the one is looked for that was meant

Json = Annotated[bool, typer.Option("--json", help="Print JSON")]
Dry = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing")]


def size_of(text: str) -> int:
    """The bytes of a size on the command line, such as 1GB."""
    try:
        return int(str(parse_bytes(text)))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def parameters_of(given: Sequence[str]) -> dict[str, str]:
    """What `--param name=value` says, each time that it is given; raises `UsageError`."""
    for one in given:
        if "=" not in one:
            raise UsageError(f"--param {one}: write it as name=value")
    return dict(one.split("=", 1) for one in given)  # type: ignore[misc]


@contextmanager
def opened(*, runs: bool = False) -> Iterator[Platform]:
    """The platform that the settings describe; what is changed is noted as made by the command line.

    Only one that `runs` operations again loads them: they may take seconds to import, and may be broken.
    """
    who = f"command line of {os.environ.get('USER') or os.getuid()}"
    platform = open_platform(who=who, runner=None if runs else NoRunner())
    try:
        yield platform
    except NeverWrittenError as error:
        raise NeverWrittenError(error.path, _hint(platform, error.path)) from None
    finally:
        platform.close()


def _hint(platform: Platform, path: str) -> str:
    beside = path.rpartition("/")[0]
    neighbours = platform.catalog.find(prefix=f"{beside}/" if beside else "", limit=_NEIGHBOURS)
    near = say_near(path, {dataset.ref.path for dataset in neighbours})
    return f"; did you mean {near}?" if near else "; `springline dataset list` lists what was written"
