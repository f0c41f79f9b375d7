"""What stood at risk over time: a sample a minute at most, thinned out as it grows old."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from math import ceil

from sqlalchemy import case, delete, func, insert, select

from springline.persistence.catalog.cache_loss import CacheLoss, loss_from
from springline.persistence.catalog.measurements import Measurements
from springline.persistence.catalog.records import insert_of, sliced
from springline.persistence.catalog.schema import risk_sample
from springline.persistence.model.cost_model import Costs

_DAY = 24 * 60  # minutes
_MONTH = 30 * _DAY


@dataclass(frozen=True, slots=True)
class Share:
    """The part of the risk that lies with what one DAG made: see `recovery.Risk`."""

    bytes: int = 0
    unproven_bytes: int = 0
    irrecoverable_bytes: int = 0
    recompute_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """What a loss of the cache would have cost at one time (seconds since 1970)."""

    at: float
    bytes: int
    unproven_bytes: int
    irrecoverable_bytes: int
    recompute_seconds: float


def shares_of(loss: CacheLoss, costs: Costs) -> dict[str, Share]:
    """The risk by DAG; the empty one stands for what no DAG made, and is always there."""
    whole, doubted, gone, seconds = {"": 0}, {"": 0}, {"": 0}, {"": 0.0}
    for key in loss.exposed:
        row = loss.rows[key]
        whole[row.dag_id] = whole.get(row.dag_id, 0) + row.bytes
        if loss.causes[key]:
            gone[row.dag_id] = gone.get(row.dag_id, 0) + row.bytes
        elif loss.doubts[key]:
            doubted[row.dag_id] = doubted.get(row.dag_id, 0) + row.bytes
    for key in loss.again(loss.exposed):
        dag_id = loss.rows[key].dag_id
        seconds[dag_id] = seconds.get(dag_id, 0.0) + (loss.seconds(key, costs) or 0.0)
    return {
        dag_id: Share(whole.get(dag_id, 0), doubted.get(dag_id, 0), gone.get(dag_id, 0), seconds.get(dag_id, 0.0))
        for dag_id in dict.fromkeys((*whole, *seconds))
    }


def superfluous(minutes: Iterable[int], now: int) -> list[int]:
    """Those samples that an older one stands for, all in minutes since 1970.

    One a minute is kept for a day, one an hour for a month, and one a day after that.
    """
    kept: set[tuple[int, int]] = set()
    found = []
    for minute in sorted(minutes):
        age = now - minute
        width = 1 if age < _DAY else 60 if age < _MONTH else _DAY
        slot = (width, minute // width)
        if slot in kept:
            found.append(minute)
        kept.add(slot)
    return found


class RiskSamples(Measurements):
    """The part of the catalog that remembers what stood at risk."""

    def sample_risk(self, *, why_away: Callable[[], str] = lambda: "") -> bool:
        """Record what a loss of the cache would cost now, unless this minute has its sample; True if it did.

        `why_away` is asked why the under-store's copies count for nothing; empty: they count.
        """
        minute = int(self.now() // 60)
        here = select(risk_sample.c.minute).where(risk_sample.c.dag_id == "")
        with self.reading() as connection:
            if connection.scalar(here.where(risk_sample.c.minute == minute)) is not None:
                return False
        away = bool(why_away())  # a store is asked outside of the transaction, as it may be slow
        with self.reading() as connection:
            loss = loss_from(connection, away=away)
        return self._record(minute, shares_of(loss, self.costs_of(loss.unmeasured)))

    def risk_since(self, since: float = 0.0, *, dag_ids: Collection[str] | None = None) -> list[Sample]:
        """The samples from `since` (seconds since 1970) on, the newest last; `dag_ids`: the shares of these alone."""
        mine = risk_sample.c.dag_id.in_(dag_ids) if dag_ids is not None else risk_sample.c.dag_id.is_not(None)
        table = risk_sample.c
        columns = (table.bytes, table.unproven_bytes, table.irrecoverable_bytes, table.recompute_seconds)
        query = (
            select(risk_sample.c.minute, *(func.sum(case((mine, column), else_=0)) for column in columns))
            .where(risk_sample.c.minute >= ceil(since / 60))
            .group_by(risk_sample.c.minute)
            .order_by(risk_sample.c.minute)
        )
        with self.reading() as connection:
            return [
                Sample(minute * 60.0, int(whole), int(doubted), int(gone), float(seconds))
                for minute, whole, doubted, gone, seconds in connection.execute(query)
            ]

    def risk_dag_ids(self) -> list[str]:
        """The DAGs that the samples tell of; among them the empty one."""
        with self.reading() as connection:
            return sorted(connection.scalars(select(risk_sample.c.dag_id).distinct()).all())

    def _record(self, minute: int, shares: Mapping[str, Share]) -> bool:
        """Write a sample, unless somebody else was first, and let go of what it makes superfluous."""
        rows = [{"minute": minute, "dag_id": dag_id, **asdict(share)} for dag_id, share in shares.items()]
        own = [row for row in rows if row["dag_id"] == ""]
        others = [row for row in rows if row["dag_id"] != ""]
        with self.writing() as connection:
            first = insert_of(connection, risk_sample).values(own).on_conflict_do_nothing()
            if connection.scalar(first.returning(risk_sample.c.minute)) is None:
                return False
            if others:
                connection.execute(insert(risk_sample), others)
            known = connection.scalars(select(risk_sample.c.minute).where(risk_sample.c.dag_id == "")).all()
            for part in sliced(superfluous(known, minute)):
                connection.execute(delete(risk_sample).where(risk_sample.c.minute.in_(part)))
        return True
