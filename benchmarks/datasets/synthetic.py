"""Lineages that look like recorded ones: seeded, of several shapes, with log-normal sizes and a rate an operation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

MB = 1_000_000
SHAPES = ("etl", "temporary", "branches", "rolling")


def generate(shape: str, seed: int, *, batches: int = 12, interval: float = 60.0) -> dict[str, Any]:
    """A lineage in the form of `record`: a batch every `interval` seconds, 200 MB landing on average.

    `etl`: load, five transforms in a chain (the last not idempotent), four analyses. `temporary`: twelve
    transforms of which only every fourth is to be persisted. `branches`: six branches from one cleaned dataset,
    joined again. `rolling`: every batch also reads the cleaned ones of the three batches before.
    """
    draft = _Draft(Random(f"{shape} {seed}"))
    build = {"etl": _etl, "temporary": _temporary, "branches": _branches, "rolling": _rolling}[shape]
    for batch in range(batches):
        draft.now = batch * interval * draft.random.uniform(0.8, 1.2)
        build(draft, batch)
    return draft.recorded(f"synthetic: shape {shape}, seed {seed}, {batches} batches")


@dataclass
class _Draft:
    """A lineage while it is made; `now` is when the next operation of the batch begins."""

    random: Random
    now: float = 0.0
    datasets: dict[str, dict[str, Any]] = field(default_factory=dict)
    operations: dict[str, dict[str, Any]] = field(default_factory=dict)
    rates: dict[str, tuple[float, float]] = field(default_factory=dict)

    def load(self, path: str, name: str = "load") -> str:
        """A landing file: nothing can make it again."""
        return self._add(path, name, [], round(200 * MB * self.random.lognormvariate(0, 0.5)), idempotent=False)

    def run(
        self,
        path: str,
        name: str,
        *sources: str,
        keeps: float = 1.0,
        idempotent: bool = True,
        persist_requested: bool = True,
        checkpoint: bool = False,
    ) -> str:
        """What operation `name` makes of `sources`: about `keeps` of their bytes."""
        size = sum(self.datasets[s]["bytes"] for s in sources)
        size = max(round(size * keeps * self.random.lognormvariate(0, 0.2)), 200)
        return self._add(
            path,
            name,
            list(sources),
            size,
            idempotent=idempotent,
            persist_requested=persist_requested,
            checkpoint=checkpoint,
        )

    def together(self, *runs: Callable[[], str]) -> list[str]:
        """Operations that begin at the same time."""
        start, ends, paths = self.now, [], []
        for run in runs:
            self.now = start
            paths.append(run())
            ends.append(self.now)
        self.now = max(ends)
        return paths

    def recorded(self, about: str) -> dict[str, Any]:
        """In order of commit, with the operations that read each other."""
        for operation in self.operations.values():
            operation["reads"] = sorted(operation["reads"])
        ordered = sorted(self.datasets.values(), key=lambda d: d["committed_at"])
        for dataset in ordered:
            dataset["sources"] = [f"{s}@1" for s in dataset["sources"]]
            dataset["read_at"].sort()
        return {"about": about, "operations": list(self.operations.values()), "datasets": ordered}

    def _add(
        self,
        path: str,
        name: str,
        sources: list[str],
        size: int,
        *,
        idempotent: bool,
        persist_requested: bool = True,
        checkpoint: bool = False,
    ) -> str:
        operation = {"name": name, "version": "1", "idempotent": idempotent, "reads": set()}
        reads = self.operations.setdefault(name, operation)["reads"]
        start, per_mb = self.rates.setdefault(
            name, (self.random.uniform(0.5, 2), math.exp(self.random.uniform(math.log(0.005), math.log(0.1))))
        )
        handled = size + sum(self.datasets[s]["bytes"] for s in sources)
        seconds = (start + per_mb * handled / 2 / MB) * self.random.lognormvariate(0, 0.15)
        for source in sources:
            reads.add(self.datasets[source]["operation"])
            self.now = max(self.now, self.datasets[source]["committed_at"])
        for source in sources:
            self.datasets[source]["read_at"].append(round(self.now, 3))
        self.now += seconds
        self.datasets[path] = {
            "path": path,
            "generation": 1,
            "committed_at": round(self.now, 3),
            "seconds": round(seconds, 3),
            "bytes": size,
            "operation": name,
            "version": "1",
            "sources": sources,
            "read_at": [],
            "persist_requested": persist_requested,
            "checkpoint": checkpoint,
        }
        return path


def _etl(draft: _Draft, batch: int) -> None:
    day = f"etl/{batch:03}"
    parsed = draft.run(f"{day}/parse", "parse", draft.load(f"{day}/load"))
    cleaned = draft.run(f"{day}/clean", "clean", parsed, keeps=0.9, checkpoint=True)
    derived = draft.run(f"{day}/derive", "derive", draft.run(f"{day}/enrich", "enrich", cleaned, keeps=1.2))
    rotated = draft.run(f"{day}/rotate", "rotate", derived, idempotent=False)
    counts = ("carriers", "routes", "causes", "hours")
    draft.together(*(lambda n=name: draft.run(f"{day}/{n}", n, rotated, keeps=0.001) for name in counts))  # type: ignore[misc]


def _temporary(draft: _Draft, batch: int) -> None:
    day = f"temporary/{batch:03}"
    path = draft.load(f"{day}/load")
    for step in range(1, 13):
        persist_requested = step % 4 == 0
        path = draft.run(
            f"{day}/t{step}",
            f"t{step}",
            path,
            keeps=0.95,
            persist_requested=persist_requested,
            checkpoint=persist_requested,
        )


def _branches(draft: _Draft, batch: int) -> None:
    day = f"branches/{batch:03}"
    cleaned = draft.run(f"{day}/clean", "clean", draft.load(f"{day}/load"), checkpoint=True)
    sides = draft.together(
        *(
            lambda i=i: draft.run(f"{day}/b{i}", f"b{i}", cleaned, keeps=0.1 * i, persist_requested=i % 2 == 0)
            for i in range(1, 7)
        )  # type: ignore[misc]
    )
    draft.run(f"{day}/join", "join", *sides, keeps=0.5)


def _rolling(draft: _Draft, batch: int) -> None:
    day = f"rolling/{batch:03}"
    cleaned = draft.run(f"{day}/clean", "clean", draft.load(f"{day}/load"), keeps=0.8)
    before = [path for i in range(1, 4) if (path := f"rolling/{batch - i:03}/clean") in draft.datasets]
    window = draft.run(f"{day}/window", "window", cleaned, *before, keeps=0.3, persist_requested=False)
    model = draft.run(f"{day}/model", "model", window, keeps=0.02)
    scored = draft.run(f"{day}/score", "score", cleaned, model, keeps=1.0)
    draft.run(f"{day}/report", "report", scored, keeps=0.001)
