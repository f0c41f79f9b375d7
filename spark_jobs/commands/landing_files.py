"""Commands for landing files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from springline.persistence.commands.arguments import Json
from springline.persistence.settings import Settings
from springline.persistence.text.formatting import format_bytes, format_list
from springline.persistence.text.terminal import print, print_json, progress
from springline.spark_jobs.errors import JobUsageError
from springline.spark_jobs.landing import YEAR, Landing, LandingFile, land, landing_of, parse_days, write_manifest
from springline.spark_jobs.settings import JobSettings


def generate(
    days: Annotated[str, typer.Option(help="Days: 2013-01-05, 2013-01-05..2013-01-07, or several separated by commas")],
    folder: Annotated[Path | None, typer.Option(help="Target folder; default: SPRINGLINE_LANDING_URI")] = None,
    copies: Annotated[int, typer.Option(min=1, help="Number of copies of each flight, for larger files")] = 1,
    as_json: Json = False,
) -> None:
    """Generate the landing files of some days of 2013, the year of the bundled flight data."""
    selected_days = parse_days(days)
    if other_years := [day.isoformat() for day in selected_days if day.year != YEAR]:
        raise JobUsageError(
            f"there are no flights of {format_list(other_years)}: use days of {YEAR}, such as {YEAR}-01-05"
        )
    with progress("writing landing files", quiet=as_json):
        landing = Landing(str(folder.absolute())) if folder else landing_of(JobSettings(), Settings())
        landed_files = land(selected_days, landing, copies=copies)
    if as_json:
        print_json([{"path": one.path, "rows": one.rows, "bytes": one.manifest.size,
                      "fresh": one.is_new} for one in landed_files])  # fmt: skip
        return
    for one in landed_files:
        note = "" if one.is_new else " (already existed)"
        print(f"{one.path}: {one.rows:,} rows, {format_bytes(one.manifest.size)}{note}")


def manifest(
    files: Annotated[list[str], typer.Argument(help="Complete landing files, before they are sent; paths or URIs")],
    as_json: Json = False,
) -> None:
    """Write the manifests of landing files (lines, bytes, checksum), without which operations reject them."""
    with progress("reading landing files", quiet=as_json):
        jobs, platform = JobSettings(), Settings()
        manifests = {file: write_manifest(_landing_file(file, jobs, platform)) for file in files}
    if as_json:
        print_json([{"file": file, "manifest": str(path)} for file, path in manifests.items()])
        return
    for file, file_manifest in manifests.items():
        print(f"{file}: {file_manifest}")


def _landing_file(place: str, jobs: JobSettings, platform: Settings) -> LandingFile:
    return LandingFile.at(place, platform.options_beside_under(place, jobs.landing_options), platform.ca_bundle)
