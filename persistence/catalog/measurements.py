"""Durations of transfers and operation runs, kept in the catalog as the history for predictions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Select, insert, select

from springline.persistence.catalog.database import Database
from springline.persistence.catalog.schema import db_now, measurement
from springline.persistence.model.cost_model import CostModel, Measurement
from springline.persistence.model.dataset import ExecutionSide
from springline.persistence.model.lineage import Lineage

_HISTORY = 40  # measurements used for a prediction


class Measurements(Database):
    """The part of the catalog that records durations."""

    def record_measurement(
        self, kind: str, side: ExecutionSide, *, bytes_in: int, bytes_out: int = 0, seconds: float
    ) -> None:
        """Record the duration of a run of an operation (`kind`: its name) or of a transfer (`kind`: "")."""
        values = {"kind": kind, "side": side.value, "bytes": bytes_in, "bytes_out": bytes_out, "seconds": seconds}
        with self.write_transaction() as connection:
            connection.execute(insert(measurement).values(measured_at=db_now(), **values))

    def load_cost_model(self, lineage: Lineage) -> CostModel:
        """Return the cost model of the link and of the operations in `lineage`."""
        return self.load_cost_model_of({dataset.call.name for dataset in lineage.datasets.values() if dataset.call})

    def load_cost_model_of(self, operations: Iterable[str]) -> CostModel:
        """Return the cost model of the link and of these operations."""
        names = sorted(operations)
        with self.read_transaction() as connection:
            link = self._history(connection, "", ExecutionSide.STORAGE)
            compute = {(name, side): self._history(connection, name, side) for name in names for side in ExecutionSide}
        return CostModel(link=link, compute={key: history for key, history in compute.items() if history})

    def output_ratio(self, name: str) -> float | None:
        """Return the median ratio of output to input bytes in the newest runs of an operation; None without history."""
        with self.read_transaction() as connection:
            rows = connection.execute(self._newest(name, ExecutionSide.CACHE)).all()
        ratios = sorted(row.bytes_out / row.bytes for row in rows if row.bytes)
        return ratios[len(ratios) // 2] if ratios else None

    def _history(self, connection: Connection, kind: str, side: ExecutionSide) -> tuple[Measurement, ...]:
        return tuple(Measurement(row.bytes, row.seconds) for row in connection.execute(self._newest(kind, side)))

    @staticmethod
    def _newest(kind: str, side: ExecutionSide) -> Select[Any]:
        return (
            select(measurement.c.bytes, measurement.c.bytes_out, measurement.c.seconds)
            .where(measurement.c.kind == kind, measurement.c.side == side.value)
            .order_by(measurement.c.id.desc())
            .limit(_HISTORY)
        )
