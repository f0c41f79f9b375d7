"""`python -m benchmarks.backpressure.charts`: what the modes do when a stage's capacity falls, as a picture."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

from benchmarks.backpressure.backpressure_simulation import COUNT, OFFERED, PARSE, SCENARIOS, SPRING, ideal, simulate
from benchmarks.backpressure.simulator import GRID

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images"
MODES = ("off", "stepwise-literal", "stepwise", "predictive", "pid", "credit")


def main() -> int:
    """Draw the rate of the first stage and the waiting bytes of the slow one, a row a mode, for two scenarios."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    for scenario in (each for each in SCENARIOS if each.name in ("step", "stop")):
        figure, rows = plt.subplots(len(MODES), 2, figsize=(9, 10), sharex=True, layout="constrained")
        at = [second * GRID for second in range(len(scenario.points()))]
        right = ideal(scenario)[:: round(1 / GRID)]
        for (rate, waiting), mode in zip(rows, MODES, strict=True):
            trace = simulate(scenario, mode)
            rate.plot(at, scenario.points() / 1e6, color="0.7", linewidth=1)
            rate.plot(range(len(right) - 1), (right[1:] - right[:-1]) / 1e6, color="0.4", linestyle=":", linewidth=1)
            course = trace.admitted[SPRING]
            seconds = [int(when) for when, _ in course]
            passed = [0.0] * (int(scenario.seconds) + 1)
            for second, (before, after) in zip(seconds[1:], pairwise(course), strict=True):
                passed[second] += (after[1] - before[1]) / 1e6
            rate.plot(passed, linewidth=1.2)
            rate.set_ylim(0, 2.2 * OFFERED / 1e6)
            rate.set_ylabel(mode)
            for stage in (PARSE, COUNT):
                waiting.plot(trace.at[stage], [each / 1e6 for each in trace.waiting[stage]], label=stage, linewidth=1)
            waiting.axhline(5, color="0.6", linestyle=":", linewidth=1)
            waiting.set_ylim(bottom=0)
        rows[0][0].set_title("admitted by the first stage, MB/s")
        rows[0][1].set_title("waiting, MB")
        rows[0][1].legend(frameon=False)
        rows[-1][0].set_xlabel("s")
        rows[-1][1].set_xlabel("s")
        target = FOLDER / f"backpressure-{scenario.name}.png"
        figure.savefig(target, dpi=80)
        print(f"{target.name}: {target.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
