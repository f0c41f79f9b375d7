"""Arguments of the commands for datasets, and the platform that they open."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from springline.persistence.errors import NeverWrittenError, UsageError
from springline.persistence.text.formatting import parse_bytes, suggest

if TYPE_CHECKING:
    from springline.persistence.platform import Platform

EXIT_CONDITION_FAILED = 3  # exit status: the command is done, and its condition is not met
_NEIGHBOURS = 1000  # number of datasets searched for a similar path

Json = Annotated[bool, typer.Option("--json", help="Print JSON")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, without doing it")]


def parse_size(text: str) -> int:
    """Return the bytes of a size on the command line, such as 1GB."""
    try:
        return int(str(parse_bytes(text)))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def parse_parameters(params: Sequence[str]) -> dict[str, str]:
    """Parse all `--param name=value` options; raises `UsageError`."""
    for param in params:
        if "=" not in param:
            raise UsageError(f"--param {param}: write it as name=value")
    return dict(one.split("=", 1) for one in params)  # type: ignore[misc]


@contextmanager
def platform_session(*, runs_operations: bool = False) -> Iterator[Platform]:
    """Open the platform that the settings describe; changes are logged as made by the command line.

    Operations are loaded only with `runs_operations`: they may take seconds to import, and may be broken.
    """
    from springline.persistence.engine.runner import NoRunner
    from springline.persistence.platform import open_platform  # which imports SQLAlchemy

    actor = f"command line of {os.environ.get('USER') or os.getuid()}"
    platform = open_platform(actor=actor, runner=None if runs_operations else NoRunner())
    try:
        yield platform
    except NeverWrittenError as error:
        raise NeverWrittenError(error.path, _suggest_path(platform, error.path)) from None
    finally:
        platform.close()


def _suggest_path(platform: Platform, path: str) -> str:
    parent = path.rpartition("/")[0]
    neighbours = platform.catalog.find(prefix=f"{parent}/" if parent else "", limit=_NEIGHBOURS)
    near = suggest(path, {dataset.ref.path for dataset in neighbours})
    return f"; did you mean {near}?" if near else "; `springline dataset list` shows all datasets"
