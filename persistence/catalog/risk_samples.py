"""History of what was at risk: at most one sample per minute, thinned out with age."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from math import ceil

from sqlalchemy import case, delete, func, insert, select

from springline.persistence.catalog.cache_loss import CacheLoss, load_cache_loss
from springline.persistence.catalog.measurements import Measurements
from springline.persistence.catalog.records import chunks_of, insert_of
from springline.persistence.catalog.schema import risk_sample
from springline.persistence.model.cost_model import CostModel

_DAY = 24 * 60  # minutes
_MONTH = 30 * _DAY


@dataclass(frozen=True, slots=True)
class DagRisk:
    """The share of the risk for the generations of one DAG; see `recovery.Risk`."""

    bytes: int = 0
    unproven_bytes: int = 0
    irrecoverable_bytes: int = 0
    recompute_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RiskSample:
    """Cost of a loss of the cache at one time (seconds since 1970)."""

    timestamp: float
    bytes: int
    unproven_bytes: int
    irrecoverable_bytes: int
    recompute_seconds: float


def risk_by_dag(loss: CacheLoss, costs: CostModel) -> dict[str, DagRisk]:
    """Return the risk by DAG id; the entry "" is for generations made outside of DAGs, and always present."""
    total_bytes, unproven_bytes, irrecoverable_bytes, recompute_seconds = {"": 0}, {"": 0}, {"": 0}, {"": 0.0}
    for key in loss.exposed:
        row = loss.rows[key]
        total_bytes[row.dag_id] = total_bytes.get(row.dag_id, 0) + row.bytes
        if loss.causes[key]:
            irrecoverable_bytes[row.dag_id] = irrecoverable_bytes.get(row.dag_id, 0) + row.bytes
        elif loss.unproven_causes[key]:
            unproven_bytes[row.dag_id] = unproven_bytes.get(row.dag_id, 0) + row.bytes
    for key in loss.rerun_order(loss.exposed):
        dag_id = loss.rows[key].dag_id
        recompute_seconds[dag_id] = recompute_seconds.get(dag_id, 0.0) + (loss.predict_seconds(key, costs) or 0.0)
    return {
        dag_id: DagRisk(
            total_bytes.get(dag_id, 0),
            unproven_bytes.get(dag_id, 0),
            irrecoverable_bytes.get(dag_id, 0),
            recompute_seconds.get(dag_id, 0.0),
        )
        for dag_id in dict.fromkeys((*total_bytes, *recompute_seconds))
    }


def redundant_minutes(minutes: Iterable[int], now: int) -> list[int]:
    """Return the samples that an older one represents, all in minutes since 1970.

    One sample per minute is kept for a day, one per hour for a month, and one per day after that.
    """
    filled_slots: set[tuple[int, int]] = set()
    redundant = []
    for minute in sorted(minutes):
        age = now - minute
        width = 1 if age < _DAY else 60 if age < _MONTH else _DAY
        slot = (width, minute // width)
        if slot in filled_slots:
            redundant.append(minute)
        filled_slots.add(slot)
    return redundant


class RiskSamples(Measurements):
    """The part of the catalog that records the history of the risk."""

    def sample_risk(self, *, find_unavailable_reason: Callable[[], str] = lambda: "") -> bool:
        """Record the current risk unless this minute has a sample already; returns True if recorded.

        `find_unavailable_reason` returns why copies in the under-store do not count; empty if they do.
        """
        minute = int(self.now() // 60)
        here = select(risk_sample.c.minute).where(risk_sample.c.dag_id == "")
        with self.read_transaction() as connection:
            if connection.scalar(here.where(risk_sample.c.minute == minute)) is not None:
                return False
        ignore_under_store = bool(
            find_unavailable_reason()
        )  # the store is asked outside of the transaction, as it may be slow
        with self.read_transaction() as connection:
            loss = load_cache_loss(connection, ignore_under_store=ignore_under_store)
        return self._record_sample(minute, risk_by_dag(loss, self.load_cost_model_of(loss.unmeasured_operations)))

    def risk_since(self, since: float = 0.0, *, dag_ids: Collection[str] | None = None) -> list[RiskSample]:
        """Return the samples from `since` (seconds since 1970) on, newest last.

        `dag_ids`: only the shares of these DAGs.
        """
        mine = risk_sample.c.dag_id.in_(dag_ids) if dag_ids is not None else risk_sample.c.dag_id.is_not(None)
        table = risk_sample.c
        columns = (table.bytes, table.unproven_bytes, table.irrecoverable_bytes, table.recompute_seconds)
        query = (
            select(risk_sample.c.minute, *(func.sum(case((mine, column), else_=0)) for column in columns))
            .where(risk_sample.c.minute >= ceil(since / 60))
            .group_by(risk_sample.c.minute)
            .order_by(risk_sample.c.minute)
        )
        with self.read_transaction() as connection:
            return [
                RiskSample(
                    minute * 60.0, int(total_bytes), int(unproven_bytes), int(irrecoverable_bytes), float(seconds)
                )
                for minute, total_bytes, unproven_bytes, irrecoverable_bytes, seconds in connection.execute(query)
            ]

    def risk_dag_ids(self) -> list[str]:
        """Return the DAG ids in the samples, including ""."""
        with self.read_transaction() as connection:
            return sorted(connection.scalars(select(risk_sample.c.dag_id).distinct()).all())

    def _record_sample(self, minute: int, risks: Mapping[str, DagRisk]) -> bool:
        """Insert a sample unless another process was first, and delete the samples it makes redundant."""
        rows = [{"minute": minute, "dag_id": dag_id, **asdict(risk)} for dag_id, risk in risks.items()]
        own = [row for row in rows if row["dag_id"] == ""]
        others = [row for row in rows if row["dag_id"] != ""]
        with self.write_transaction() as connection:
            first = insert_of(connection, risk_sample).values(own).on_conflict_do_nothing()
            if connection.scalar(first.returning(risk_sample.c.minute)) is None:
                return False
            if others:
                connection.execute(insert(risk_sample), others)
            minutes = connection.scalars(select(risk_sample.c.minute).where(risk_sample.c.dag_id == "")).all()
            for part in chunks_of(redundant_minutes(minutes, minute)):
                connection.execute(delete(risk_sample).where(risk_sample.c.minute.in_(part)))
        return True
