"""The command `springline completion`, for shell completion."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]

from springline.persistence.text.terminal import print

VARIABLE = "_SPRINGLINE_COMPLETE"


class Shell(StrEnum):
    """A shell for which completion is supported."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Shell to print the script for")]) -> None:
    """Print a shell's completion script: `source <(springline completion bash)`."""
    print(get_completion_script(prog_name="springline", complete_var=VARIABLE, shell=shell.value))
