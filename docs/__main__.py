"""`python -m docs`: writes the generated parts of the documentation; `--check` only reports what is out of date."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from docs.api_page import api_page, openapi_of_the_api
from docs.commands_page import commands_page
from docs.console import correct_outputs, outputs_of
from docs.declarations_page import declarations_page
from docs.figures import figures
from docs.generated_parts import fill_parts
from docs.goals import goals_table
from docs.import_diagrams import import_diagram
from docs.metrics_tables import metrics_table
from docs.python_page import python_page
from docs.settings_page import settings_page

DOCS = Path(__file__).resolve().parent
ARCHITECTURE = DOCS / "architecture.md"
SETTINGS = DOCS / "settings.md"
COMMANDS = DOCS / "reference-commands.md"
API = DOCS / "reference-api.md"
PYTHON = DOCS / "reference-python.md"
DECLARATIONS = DOCS / "reference-declarations.md"
MONITORING = DOCS / "monitoring.md"
BENCHMARKS = DOCS / "benchmarks.md"
# The examples of the README and of the tutorial need Spark and Kafka; tests run them.
WITH_EXAMPLES = tuple(DOCS / name for name in ("persistence.md", "howto.md", "operations.md", "python.md"))


def generated_pages() -> dict[Path, str]:
    """Return the required content of each document with generated parts."""
    written = {
        SETTINGS: settings_page(),
        COMMANDS: commands_page(),
        API: api_page(openapi_of_the_api()),
        PYTHON: python_page(),
        DECLARATIONS: declarations_page(),
    }
    reference = fill_parts(MONITORING.read_text(encoding="utf-8"), "metrics", metrics_table)
    diagrams = fill_parts(ARCHITECTURE.read_text(encoding="utf-8"), "imports", import_diagram)
    measured = fill_parts(BENCHMARKS.read_text(encoding="utf-8"), "figures", figures)
    measured = fill_parts(measured, "goals", goals_table)
    return {**written, MONITORING: reference, ARCHITECTURE: diagrams, BENCHMARKS: measured}


def main(arguments: list[str] | None = None) -> int:
    """Write documents that are out of date, or with `--check` name them; return 1 if a check finds any."""
    parser = argparse.ArgumentParser(prog="python -m docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if anything is out of date")
    only_check = parser.parse_args(arguments).check
    if not only_check:
        for path in WITH_EXAMPLES:
            with TemporaryDirectory(prefix="springline-docs-") as folder:
                text = path.read_text(encoding="utf-8")
                new = correct_outputs(text, outputs_of(text, Path(folder), {}))
            if new != text:
                path.write_text(new, encoding="utf-8")
                print(f"{path.name} written")
    texts = generated_pages()
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text("utf-8") != text]
    for path in stale:
        print(f"{path.name} is out of date: run `make docs`" if only_check else f"{path.name} written")
        if not only_check:
            path.write_text(texts[path], encoding="utf-8")
    return int(only_check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
