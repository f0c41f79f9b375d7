"""`python -m docs.screenshots`: writes the documents' screenshots of Airflow's pages from screenshots of the tests."""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
SCREENSHOTS = ROOT / "var" / "e2e"
IMAGES = ROOT / "docs" / "images"
SHOWN = (
    "lineage-light", "lineage-chain-dark", "queue-why-light", "risk-light", "dataset-light", "streams-light",
    "stream-ticks-light", "stream-words-dark", "stream-pairs-light",
)  # fmt: skip
COLOURS = 128  # enough for pages, with half the bytes


def reduce_colours(source: Path, target: Path) -> None:
    """Write a picture with a reduced palette."""
    with Image.open(source) as picture:
        rgb_picture = picture.convert("RGB")  # without `kmeans`, greys would become pink
        few = rgb_picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
        few.save(target, optimize=True)


def main() -> int:
    """Write every picture that the documents show; return 1 if a screenshot is missing."""
    missing = [name for name in SHOWN if not (SCREENSHOTS / f"{name}.png").exists()]
    if missing:
        print(f"no screenshots of {', '.join(missing)} in {SCREENSHOTS}: run `make screenshots`", file=sys.stderr)
        return 1
    IMAGES.mkdir(exist_ok=True)
    for name in SHOWN:
        reduce_colours(SCREENSHOTS / f"{name}.png", IMAGES / f"{name}.png")
        print(f"{name}.png: {(IMAGES / f'{name}.png').stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
