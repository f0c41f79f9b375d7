"""Commands about landing files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from springline.persistence.commands.arguments import Json
from springline.persistence.text.formatting import say_bytes, say_list
from springline.persistence.text.terminal import print, print_json, progress
from springline.spark_jobs.landing import YEAR, land, parse_days, write_manifest
from springline.spark_jobs.settings import JobSettings


def generate(
    days: Annotated[str, typer.Option(help="2013-01-05, 2013-01-05..2013-01-07, or several with commas between")],
    folder: Annotated[Path | None, typer.Option(help="Where to; default: SPRINGLINE_LANDING")] = None,
    copies: Annotated[int, typer.Option(min=1, help="Every flight so many times over, for larger files")] = 1,
    as_json: Json = False,
) -> None:
    """Write the landing files of some days of 2013, the year of the flights that come with the packages."""
    chosen = parse_days(days)
    if strange := [day.isoformat() for day in chosen if day.year != YEAR]:
        raise ValueError(f"there are no flights of {say_list(strange)}: give days of {YEAR}, such as {YEAR}-01-05")
    with progress("writing landing files", quiet=as_json):
        landed = land(chosen, folder or JobSettings().landing_folder, copies=copies)
    if as_json:
        print_json([{"path": str(one.path), "rows": one.rows, "bytes": one.manifest.size,
                      "fresh": one.fresh} for one in landed])  # fmt: skip
        return
    for one in landed:
        said = "" if one.fresh else " (was there)"
        print(f"{one.path}: {one.rows:,} rows, {say_bytes(one.manifest.size)}{said}")


def manifest(
    files: Annotated[list[Path], typer.Argument(help="Landing files that are whole, as they are sent")],
    as_json: Json = False,
) -> None:
    """Write the manifest beside landing files, without which no load takes them: lines, bytes and a checksum."""
    with progress("reading landing files", quiet=as_json):
        written = {file: write_manifest(file) for file in files}
    if as_json:
        print_json([{"file": str(file), "manifest": str(path)} for file, path in written.items()])
        return
    for file, path in written.items():
        print(f"{file}: {path}")
