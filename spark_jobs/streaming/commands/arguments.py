"""Common arguments of stream commands."""

from __future__ import annotations

from typing import Annotated

import typer

from springline.persistence.commands.arguments import Json

__all__ = ["JobName", "Json", "Watch"]

Watch = Annotated[bool, typer.Option("--watch", help="Refresh until Ctrl-C; the job is not affected")]
JobName = Annotated[str, typer.Argument(help="A job of streams.toml")]
