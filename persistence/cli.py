"""The command line: look at datasets, ask why, and act; every command also speaks JSON."""

from __future__ import annotations

from typing import Annotated

import typer

from springline.persistence.commands.acting import adopt, evict, persist, pin, rebuild, recover, retire
from springline.persistence.commands.alerts import alerts
from springline.persistence.commands.arguments import refuse
from springline.persistence.commands.looking import at_risk, explain, plan, status
from springline.persistence.commands.proofs import prove
from springline.persistence.errors import PersistenceError
from springline.persistence.redacting import redacted, traceback_without_secrets
from springline.persistence.settings import Settings
from springline.persistence.terminal import print

app = typer.Typer(
    help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)
for command in (status, explain, at_risk, alerts, plan, persist, prove, recover, evict, pin, retire, rebuild, adopt):
    app.command()(command)


@app.command()
def settings(
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
            print(f"| `{variable}` | {default} | {field.description} |")
        else:
            print(f"{variable}={redacted(str(getattr(now, name)))}\n    {field.description}")


def main() -> None:
    """Run the command line; a known error is one line and exit status 2 for misuse, 1 for a failure."""
    try:
        with traceback_without_secrets(PersistenceError, ValueError):
            app()
    except (PersistenceError, ValueError) as error:
        refuse("persistence", error)
