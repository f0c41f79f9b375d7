"""Which copies a unit may still be told to take in: what lies before them in the topic of copies can be deleted."""

from __future__ import annotations

from dataclasses import dataclass, field

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
        for giver, pieces in list(self.pieces.items()):
            told = [(piece, behind.get(piece, to)) for piece, to in pieces]
            while told and (to := told[0][1]) is not None:
                self.since[giver] = max(to, self.since.get(giver, 0))
                del told[0]
            self.pieces[giver] = told
            if not told:
                del self.pieces[giver]
        for piece in orders.copies:
            self.pieces.setdefault(piece.giver, []).append((piece.id, None))
