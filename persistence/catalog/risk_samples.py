"""History of what was at risk: at most one sample per minute, thinned out with age."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from math import ceil

from sqlalchemy import case, delete, func, insert, select

from springline.persistence.catalog.cache_loss import CacheLoss, load_cache_loss
from springline.persistence.catalog.measurements import Measurements
from springline.persistence.catalog.records import chunks_of, insert_of
from springline.persistence.catalog.schema import risk_sample
from springline.persistence.model.cost_model import CostModel

_DAY = 24 * 60  # minutes
_MONTH = 30 * _DAY
_IDLE_INTERVAL = 5  # minutes between two samples while nothing is persisted; the DAG `maintenance` takes them then
_GAP_INTERVALS = 3  # intervals without a sample from which on nothing is known of the time between


@dataclass(frozen=True, slots=True)
class DagRisk:
    """The share of the risk for the generations of one DAG; see `recovery.Risk`."""

    bytes: int = 0
    unproven_bytes: int = 0
    irrecoverable_bytes: int = 0
    recompute_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RiskSample:
    """Cost of a loss of the cache at one time (seconds since 1970).

    `known_until`: until when the values hold, which is the time of the next sample, unless there is a gap before it.
    """

    timestamp: float
    known_until: float
    bytes: int
    unproven_bytes: int
    irrecoverable_bytes: int
    recompute_seconds: float

    @property
    def severity(self) -> tuple[int, int, float, int]:
        """How bad a loss would have been, for comparison: first what would be irrecoverable."""
        return (self.irrecoverable_bytes, self.unproven_bytes, self.recompute_seconds, self.bytes)


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
    for key in loss.reruns:
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
        width = _slot_width(now - minute)
        slot = (width, minute // width)
        if slot in filled_slots:
            redundant.append(minute)
        filled_slots.add(slot)
    return redundant


def known_until(minutes: Sequence[int], now: float) -> list[float]:
    """Return until when each of `minutes`, in order, is known, all in minutes since 1970, and at most until `now`.

    A sample holds until the next one. After a gap, which is longer than three intervals of the samples of that age, it
    holds for one interval only.
    """
    ends = []
    for minute, following in zip_longest(minutes, minutes[1:], fillvalue=now):
        interval = max(_slot_width(now - minute), _IDLE_INTERVAL)
        is_gap = following - minute > _GAP_INTERVALS * interval
        ends.append(max(minute + interval if is_gap else following, minute))
    return ends


def _slot_width(age: float) -> int:
    return 1 if age < _DAY else 60 if age < _MONTH else _DAY


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
            rows = connection.execute(query).all()
        ends = known_until([row[0] for row in rows], self.now() / 60)
        return [
            RiskSample(
                minute * 60.0, end * 60, int(total_bytes), int(unproven_bytes), int(irrecoverable_bytes), float(seconds)
            )
            for (minute, total_bytes, unproven_bytes, irrecoverable_bytes, seconds), end in zip(rows, ends, strict=True)
        ]

    def risk_shares(self, timestamp: float, dag_ids: Collection[str]) -> dict[str, DagRisk]:
        """Return the shares of `dag_ids` in the sample of that time, those that had any."""
        table = risk_sample.c
        columns = (table.bytes, table.unproven_bytes, table.irrecoverable_bytes, table.recompute_seconds)
        is_sample = (table.minute == int(timestamp // 60)) & table.dag_id.in_(dag_ids)
        query = select(table.dag_id, *columns).where(is_sample).order_by(table.dag_id)
        with self.read_transaction() as connection:
            shares = {dag_id: DagRisk(*values) for dag_id, *values in connection.execute(query)}
        return {dag_id: share for dag_id, share in shares.items() if share != DagRisk()}

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
