"""What a join does with one key: where it is stored, what it probes, whether it is heavy and why; pure.

A key is heavy if its tuples alone are more than the tolerated imbalance of a unit's mean load, so that the unit which
stores it decides whether the limit is kept; or if it is split over several units already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from springline.persistence.text.formatting import format_count
from springline.spark_jobs.streaming.join.routing.loads import Loads
from springline.spark_jobs.streaming.join.routing.routes import Routes
from springline.spark_jobs.streaming.join.routing.table import SIDES, RoutingTable
from springline.spark_jobs.streaming.join.wire import JoinSide, KeyBand


@dataclass(frozen=True)
class KeyOnSide:
    """A key on one side: the share of its new tuples that each unit stores, and which units its tuples probe.

    `tuples` is how many are stored (`parts`: by unit), None if the key is too rare to be counted: then there are at
    most `at_most`. `probes` counts the tuples of the other side with this key. `placement` is what routing does: by
    hash, pinned (to one unit, by an entry of the table), or split (over several).
    """

    side: str
    stores: Mapping[int, float]
    probed_units: tuple[int, ...]
    tuples: int | None
    at_most: int
    parts: Mapping[int, int]
    probes: int | None
    placement: str
    sentence: str


@dataclass(frozen=True)
class KeyExplanation:
    """A key of a join, as the 64-bit number that routing uses; `share` is that of its tuples in a unit's mean load."""

    key: int
    is_heavy: bool
    share: float
    reason: str
    sides: tuple[KeyOnSide, ...]


def placement_of(table: RoutingTable, side: JoinSide, key: int) -> str:
    """Return what routing does with a key on a side: hash, pinned or split."""
    entry = table.entries[side].get(key)
    if entry is None:
        return "split" if len(table.home(side, key).units) > 1 else "hash"
    return "split" if len(entry.units) > 1 else "pinned"


def heavy_key_rows(table: RoutingTable, loads: Loads, max_imbalance: float) -> tuple[dict[str, Any], ...]:
    """Return the counted keys of both sides as plain values, the one with most tuples first."""
    mean = loads.mean(table.units)
    totals: dict[int, int] = {}
    for one in loads.heavy:
        totals[one.key] = totals.get(one.key, 0) + one.count
    rows = []
    for one in sorted(loads.heavy, key=lambda one: (-one.count, one.side, one.key)):
        share, placement = totals[one.key] / mean if mean else 0.0, placement_of(table, one.side, one.key)
        is_split = one.key in table.entries[one.side] and placement == "split"
        rows.append(
            {"side": one.side.name.lower(), "key": one.key, "tuples": one.count, "probes": one.probes,
             "parts": dict(one.parts), "share": share, "is_heavy": is_split or share > max_imbalance,
             "placement": placement}
        )  # fmt: skip
    return tuple(rows)


def explain_key(table: RoutingTable, key_band: KeyBand, key: int, explanation: Mapping[str, Any]) -> KeyExplanation:
    """Explain a key by the routing table and the counts of the last `RoutingExplanation`, as plain values."""
    sides = tuple(_on_side(table, key_band, side, key, explanation) for side in SIDES)
    limit = explanation["max_imbalance"]
    used = explanation["used"]
    mean = sum(sum(load) for unit, load in explanation["loads"].items() if int(unit) in used) / max(len(used), 1)
    tuples = sum(each.tuples or 0 for each in sides)
    share = tuples / mean if mean else 0.0
    is_split = any(key in table.entries[side] and sides[side].placement == "split" for side in SIDES)
    is_heavy = is_split or share > limit
    if is_split:
        reason = f"its tuples are split over several units, {share:.1%} of a unit's mean load"
    elif all(each.tuples is None for each in sides):
        reason = "it is too rare to be counted"
    else:
        than = "more" if is_heavy else "not more"
        counted = format_count(tuples, "tuple")
        reason = f"its {counted} are {share:.1%} of a unit's mean load, {than} than max_imbalance, {limit:.1%}"
    return KeyExplanation(key, is_heavy, share, reason, sides)


def _on_side(
    table: RoutingTable, key_band: KeyBand, side: JoinSide, key: int, explanation: Mapping[str, Any]
) -> KeyOnSide:
    name = side.name.lower()
    keys, seqs = np.array([key], np.int64), np.zeros(1, np.int64)
    probed = tuple(sorted(set(Routes.of(table, side, key_band).look_up(keys, seqs).probed.tolist())))
    place = table.place(side, key)
    counted: Mapping[str, Any] = next(
        (each for each in explanation["heavy_keys"] if each["key"] == key and each["side"] == name),
        {"tuples": None, "parts": {}, "probes": None},
    )
    stores = {unit: place.share(unit) for unit in place.units}
    placement = placement_of(table, side, key)
    return KeyOnSide(
        name, stores, probed, counted["tuples"], explanation["uncounted_at_most"][side],
        {int(unit): tuples for unit, tuples in counted["parts"].items()}, counted["probes"], placement,
        _sentence(name, placement, stores, probed),
    )  # fmt: skip


def _sentence(side: str, placement: str, stores: Mapping[int, float], probed: tuple[int, ...]) -> str:
    where = _units(tuple(stores))
    how = {
        "hash": f"goes to {where} by its hash",
        "pinned": f"is pinned to {where} by an entry of the routing table",
        "split": f"is split over {where}: " + ", ".join(f"{share:.0%} on {unit}" for unit, share in stores.items()),
    }[placement]
    return f"A new {side} tuple {how}, and probes {_units(probed)}."


def _units(units: tuple[int, ...]) -> str:
    if not units:
        return "no unit"
    return f"unit{'' if len(units) == 1 else 's'} {', '.join(map(str, units))}"
