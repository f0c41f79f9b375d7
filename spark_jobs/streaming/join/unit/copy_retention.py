"""Which copies a unit may still be told to take in: what lies before them in the topic of copies can be deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from springline.spark_jobs.streaming.join.wire import Orders


@dataclass
class Needing:
    """For each giver its pieces in the order of their copies, from the first one on that is not switched to.

    `pieces` has for each giver (piece, offset behind its copy; None: not switched to), `since` the offset before which
    all copies of the giver were switched to. Every unit is told all orders, and keeps this of all givers; what the
    states of all units are done with is not read again.
    """

    pieces: dict[int, list[tuple[int, int | None]]] = field(default_factory=dict)
    since: dict[int, int] = field(default_factory=dict)

    def obey(self, orders: Orders) -> None:
        """After the orders of an epoch."""
        behind = {switch.piece.id: switch.to for switch in orders.switches}
        for giver, pieces in self.pieces.items():
            told = [(piece, behind.get(piece, to)) for piece, to in pieces]
            while told and (to := told[0][1]) is not None:
                self.since[giver] = max(to, self.since.get(giver, 0))
                del told[0]
            self.pieces[giver] = told
        for piece in orders.copies:
            self.pieces.setdefault(piece.giver, []).append((piece.id, None))

    def as_json(self) -> dict[str, Any]:
        """For a state's scalars."""
        return {
            "pieces": {str(giver): pieces for giver, pieces in sorted(self.pieces.items()) if pieces},
            "since": {str(giver): since for giver, since in sorted(self.since.items())},
        }

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> Needing:
        """The inverse of `as_json`."""
        pieces = {int(giver): [(piece, to) for piece, to in each] for giver, each in told["pieces"].items()}
        return Needing(pieces, {int(giver): since for giver, since in told["since"].items()})
