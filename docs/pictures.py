"""`python -m docs.pictures`: the documents' pictures of Airflow's pages, made small, from those that the tests took."""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
TAKEN = ROOT / "var" / "e2e"
KEPT = ROOT / "docs" / "pictures"
SHOWN = (
    "lineage-light", "lineage-chain-dark", "queue-why-light", "risk-light", "dataset-light", "streams-light",
    "stream-ticks-light", "stream-words-dark", "stream-pairs-light",
)  # fmt: skip
COLOURS = 128  # enough for pages, and half the bytes


def small(taken: Path, kept: Path) -> None:
    """Write a picture with few colours."""
    with Image.open(taken) as picture:
        whole = picture.convert("RGB")  # without `kmeans` its greys would come out as pink
        few = whole.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
        few.save(kept, optimize=True)


def main() -> int:
    """Write every picture that the documents show; 1 if one was not taken."""
    missing = [name for name in SHOWN if not (TAKEN / f"{name}.png").exists()]
    if missing:
        print(f"no pictures of {', '.join(missing)} in {TAKEN}: run `make pictures`", file=sys.stderr)
        return 1
    KEPT.mkdir(exist_ok=True)
    for name in SHOWN:
        small(TAKEN / f"{name}.png", KEPT / f"{name}.png")
        print(f"{name}.png: {(KEPT / f'{name}.png').stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
