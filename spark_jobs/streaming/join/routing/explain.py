"""Explanation of the controller for a person, as plain values: observed loads, migrations in progress, next plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from springline.spark_jobs.streaming.join.routing.controller import (
    ControllerState,
    JoinObservation,
    RebalanceConfig,
    loads_of,
    next_plan,
)
from springline.spark_jobs.streaming.join.routing.key_explanation import heavy_key_rows
from springline.spark_jobs.streaming.join.routing.sketch import TOP, Sketch
from springline.spark_jobs.streaming.join.routing.table import SIDES, Placement


@dataclass(frozen=True)
class RoutingExplanation:
    """The routing of a join: `loads` by unit (left, right); shares of tuples by key; described moves with costs.

    There is a load for each of the possible units; those in use are `used`. `heavy_keys` are all keys that the routers
    have counted, the one with most tuples first; those that are heavy are marked (`key_explanation.py`). A key that is
    not listed has at most `uncounted_at_most` tuples (left, right).
    """

    epoch: int
    strategy: str
    units: int
    requested_units: int
    used: tuple[int, ...]
    loads: Mapping[int, tuple[int, int]]
    imbalance: float
    max_imbalance: float
    heavy_keys: tuple[Mapping[str, Any], ...]
    entries: tuple[Mapping[str, Any], ...]
    migrations: tuple[Mapping[str, Any], ...]
    messages_per_tuple: float | None
    next_reasons: tuple[str, ...]
    planned_moves: tuple[Mapping[str, Any], ...]
    uncounted_at_most: tuple[int, int] = (0, 0)

    def as_json(self) -> dict[str, Any]:
        """Return plain values for files and responses."""
        return asdict(self)


def explain(
    state: ControllerState,
    observation: JoinObservation,
    config: RebalanceConfig,
    counts: Mapping[str, int] | None = None,
) -> RoutingExplanation:
    """Explain the counted keys, all entries, migrations in progress, and the plan; `counts`: of the routers."""
    table = state.table
    state = ControllerState(
        table,
        state.copying,
        state.pending,
        state.heavy_keys.with_sketches(table, observation.sketches),
        planned_tuples=state.planned_tuples,
    )
    loads = loads_of(state, observation, config)
    in_progress = len(state.copying) + len(state.pending)
    plan = None if in_progress else next_plan(state, loads, config)
    next_reasons = (
        plan.reasons
        if plan
        else (f"wait for {in_progress} migrations" if in_progress else "nothing: within the limit",)
    )
    counts = counts or {}
    return RoutingExplanation(
        epoch=table.epoch,
        strategy=config.strategy,
        units=len(table.units),
        requested_units=config.units,
        used=table.units,
        loads={unit: loads.stored.get(unit, (0, 0)) for unit in range(table.max_units)},
        imbalance=loads.imbalance(table.units),
        max_imbalance=config.max_imbalance,
        heavy_keys=heavy_key_rows(table, loads, config.max_imbalance),
        entries=tuple(
            {"side": side.name.lower(), "key": key, **_placement_shares(place)}
            for side in SIDES
            for key, place in sorted(table.entries[side].items())
        ),
        migrations=tuple(
            {"piece": one.migration.id, "copying": one in state.copying, "tuples": one.tuples, "kind": one.kind,
             "cost": one.cost, "description": one.summary} for one in (*state.copying, *state.pending)
        ),
        messages_per_tuple=counts["messages"] / counts["tuples"] if counts.get("tuples") else None,
        next_reasons=next_reasons,
        planned_moves=tuple(
            {"kind": one.kind, "tuples": one.tuples, "cost": one.cost, "description": one.describe()}
            for one in (plan.moves if plan else ())
        ),
        uncounted_at_most=(_uncounted(observation.sketches[0]), _uncounted(observation.sketches[1])),
    )  # fmt: skip


def _uncounted(sketch: Sketch) -> int:
    """Return how many tuples a key that a sketch does not list has at most: none, as long as it lists all keys."""
    return sketch.missed + (int(sketch.counts.min()) if sketch.keys.size >= TOP else 0)


def _placement_shares(place: Placement) -> dict[str, Any]:
    return {"stores": {unit: place.share(unit) for unit in place.units}, "probed_units": list(place.holds)}
