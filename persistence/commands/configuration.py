"""The command about settings."""

from __future__ import annotations

from typing import Annotated

import typer

from springline.persistence.settings import Settings
from springline.persistence.text.redaction import redacted
from springline.persistence.text.terminal import print


def list_settings(
    markdown: Annotated[bool, typer.Option(help="As the table of the documentation")] = False,
) -> None:
    """List the settings, each with its environment variable and what it is now."""
    now = Settings()
    if markdown:
        print("| setting | default | what it is |\n|---|---|---|")
    for name, field in Settings.model_fields.items():
        variable = f"SPRINGLINE_{name.upper()}"
        if markdown:
            default = "`var/` beside the packages" if name == "home" else f"`{field.default!r}`"
            print(f"| `{variable}` | {default} | {Settings.help_of(name)} |")
        else:
            print(f"{variable}={redacted(str(getattr(now, name)))}\n    {Settings.help_of(name)}")
