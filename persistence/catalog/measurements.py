"""What transfers and runs of operations took: kept by the catalog, as the history that predictions come from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Select, insert, select

from springline.persistence.catalog.database import Database
from springline.persistence.catalog.schema import db_now, measurement
from springline.persistence.model.cost_model import Costs, Measurement
from springline.persistence.model.dataset import Side
from springline.persistence.model.lineage import Lineage

_HISTORY = 40  # measurements that a prediction looks back on


class Measurements(Database):
    """The part of the catalog that remembers how long things took."""

    def measure(self, kind: str, side: Side, *, bytes_in: int, bytes_out: int = 0, seconds: float) -> None:
        """Keep what a run of an operation (`kind`: its name) or a transfer (`kind`: "") took."""
        values = {"kind": kind, "side": side.value, "bytes": bytes_in, "bytes_out": bytes_out, "seconds": seconds}
        with self.writing() as connection:
            connection.execute(insert(measurement).values(at=db_now(), **values))

    def costs(self, lineage: Lineage) -> Costs:
        """What is known of the link and of the operations in `lineage`."""
        return self.costs_of({dataset.call.name for dataset in lineage.datasets.values() if dataset.call})

    def costs_of(self, operations: Iterable[str]) -> Costs:
        """What is known of the link and of these operations."""
        names = sorted(operations)
        with self.reading() as connection:
            link = self._history(connection, "", Side.STORAGE)
            compute = {(name, side): self._history(connection, name, side) for name in names for side in Side}
        return Costs(link=link, compute={key: known for key, known in compute.items() if known})

    def growth(self, name: str) -> float | None:
        """Bytes out for each byte in of the newest runs of an operation (median); None without history."""
        with self.reading() as connection:
            rows = connection.execute(self._newest(name, Side.CACHE)).all()
        ratios = sorted(row.bytes_out / row.bytes for row in rows if row.bytes)
        return ratios[len(ratios) // 2] if ratios else None

    def _history(self, connection: Connection, kind: str, side: Side) -> tuple[Measurement, ...]:
        return tuple(Measurement(row.bytes, row.seconds) for row in connection.execute(self._newest(kind, side)))

    @staticmethod
    def _newest(kind: str, side: Side) -> Select[Any]:
        return (
            select(measurement.c.bytes, measurement.c.bytes_out, measurement.c.seconds)
            .where(measurement.c.kind == kind, measurement.c.side == side.value)
            .order_by(measurement.c.id.desc())
            .limit(_HISTORY)
        )
