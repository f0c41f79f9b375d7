"""What is at risk by name, added up over what one may read, and the risk over time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from springline.airflow.lineage.access_filter import redact_hidden
from springline.airflow.lineage.remedies import Remedy
from springline.airflow.lineage.risks import ExposedDataset, RiskTotals, exposed_datasets, sum_risk
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.risk_samples import DagRisk, RiskSample, known_until, redundant_minutes
from springline.persistence.decisions.persist_status import PersistState
from springline.persistence.decisions.recovery import assess_risk
from springline.persistence.model.cost_model import CostModel
from springline.persistence.model.dataset import Dataset, Operation, Origin
from springline.persistence.platform import Platform
from tests.support.datasets.lineages import cached, evicted, lineage_of, persisted, ref
from tests.support.datasets.recording import record

DAY = 24 * 60


@pytest.fixture
def catalog(platform: Platform) -> Catalog:
    """A catalog of its own for each test."""
    return platform.catalog


def risks(
    catalog: Catalog, reads: Callable[[str], bool] = lambda dag_id: True, limit: int = 9
) -> tuple[RiskTotals, list[ExposedDataset]]:
    """What is shown to a user who may read the datasets of those DAGs: the sums, and the worst datasets."""
    loss, costs = catalog.cache_loss(), CostModel()
    totals = sum_risk(loss, costs, reads, limit=limit)
    named = redact_hidden(
        catalog.lineage_without_sources(totals.named_keys(loss)), lambda dataset: reads(dataset.origin.dag_id)
    )
    remedies = dict.fromkeys(named.datasets, Remedy(PersistState.QUEUED, "", "", False, ""))
    return totals, exposed_datasets(totals, loss, costs, named, reads, remedies)


# ---- by name


def test_the_risks_add_up_to_what_the_command_line_says(catalog: Catalog) -> None:
    """Dataset by dataset, what is irrecoverable first, then by size."""
    lineage = lineage_of(
        persisted("a", by=None), cached("b", "a", bytes=10), cached("c", "b", bytes=30), evicted("d", "c"),
        cached("x", by="dice", bytes=5), cached("y", "x", bytes=7), cached("e", "d"),
    )  # fmt: skip
    record(catalog, lineage)
    risk, (totals, worst) = assess_risk(lineage, CostModel()), risks(catalog, limit=4)
    assert totals.total == DagRisk(risk.bytes, risk.unproven_bytes, risk.irrecoverable_bytes, risk.recompute_seconds)
    assert totals.datasets == 5 and [each.path for each in worst] == ["y", "x", "e", "c"]
    assert worst[0].irrecoverable_reasons == ["dice (version v1), which made x@1, is not idempotent"]
    assert [each.seconds for each in worst] == [None, None, 1.0, 1.0]
    assert [each.dependents for each in worst] == [0, 1, 0, 1]


def test_what_is_only_declared_is_marked_and_comes_before_what_is_proven(catalog: Catalog) -> None:
    """After what is irrecoverable; with the operation that was never seen to repeat, also upstream."""
    lineage = lineage_of(
        persisted("a", by=None), cached("b", "a", by="fresh", bytes=10), cached("c", "b", bytes=3), cached("d", "a"),
        cached("x", by="dice", bytes=5), fresh=Operation("fresh", "v1", idempotent=True),
    )  # fmt: skip
    record(catalog, lineage)
    risk, (totals, worst) = assess_risk(lineage, CostModel()), risks(catalog)
    assert (totals.total.unproven_bytes, totals.total.irrecoverable_bytes, totals.total.bytes) == (13, 5, 1018)
    assert risk.unproven_bytes == 13 and risk.unproven == (ref("b"), ref("c"))
    assert [each.path for each in worst] == ["x", "b", "c", "d"]
    reasons = ["fresh (version v1), which made b@1, is declared idempotent, but not proven"]
    assert [each.unproven_reasons for each in worst] == [[], reasons, reasons, []]
    assert [bool(each.irrecoverable_reasons) for each in worst] == [True, False, False, False]


def test_the_risk_of_what_one_may_read_is_the_share_of_those_dags(catalog: Catalog) -> None:
    """As the samples of the history have it: neither bytes nor seconds of what another DAG made, nor its names."""
    mine = Origin("mine")
    record(catalog, lineage_of(
        persisted("a", by=None), cached("b", "a"), cached("c", "b", origin=mine), cached("x", by="dice"),
        cached("y", "x", origin=mine, bytes=1), cached("z", "c"),
    ))  # fmt: skip
    totals, worst = risks(catalog, lambda dag_id: dag_id == "mine")
    assert (totals.total.bytes, totals.datasets, [each.path for each in worst]) == (1001, 2, ["y", "c"])
    assert totals.total.recompute_seconds == 1.0 and [each.dependents for each in worst] == [0, 0]
    assert [share.dag_id for share in totals.shares] == ["mine"]
    (reason,) = worst[0].irrecoverable_reasons
    assert reason.startswith("dice (version v1), which made hidden:")


# ---- over time


@pytest.fixture
def sampled(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Records the datasets given, and takes a sample in the minute given."""

    def sample(minute: int, *datasets: Dataset) -> bool:
        record(catalog, lineage_of(*datasets))
        monkeypatch.setattr(catalog, "now", lambda: minute * 60 + 30)
        return catalog.sample_risk()

    return sample


def test_the_risk_is_recorded_as_it_goes(catalog: Catalog, sampled: Callable[..., bool]) -> None:
    """Also that there is none any more."""
    risky = (persisted("a", by=None), cached("b", "a", bytes=10), cached("x", by="dice", bytes=5))
    for minute, datasets in enumerate((risky, risky[:2], risky[:1]), start=100):
        assert sampled(minute, *datasets)
    series = [
        RiskSample(6000.0, 6060.0, 15, 0, 5, 1.0), RiskSample(6060.0, 6120.0, 10, 0, 0, 1.0),
        RiskSample(6120.0, 6150.0, 0, 0, 0, 0.0),
    ]  # fmt: skip
    assert catalog.risk_since() == series
    assert catalog.risk_since(6060) == series[1:] and catalog.risk_since(6061) == series[2:]


def test_a_minute_has_one_sample(catalog: Catalog, sampled: Callable[..., bool]) -> None:
    """Whoever comes second records nothing, even if both began at once."""
    assert sampled(100, cached("a", by="dice"))
    assert not sampled(100, cached("a", bytes=7))
    assert not catalog._record_sample(100, {"": DagRisk(bytes=8)})
    assert [sample.bytes for sample in catalog.risk_since()] == [1000]


def test_each_dag_has_its_share(catalog: Catalog, sampled: Callable[..., bool]) -> None:
    """What is run again only for another DAG counts for the DAG that made it."""
    theirs, mine = evicted("b", "a", origin=Origin("theirs")), cached("c", "b", origin=Origin("mine"))
    sampled(100, persisted("a", by=None), theirs, mine, cached("by hand", bytes=3, by=None))
    assert catalog.risk_dag_ids() == ["", "mine", "theirs"]
    for dag_ids, share in (
        (["mine"], (1000, 0, 0, 1.0)),
        (["theirs"], (0, 0, 0, 1.0)),
        ([""], (3, 0, 3, 0.0)),
        (["mine", "theirs"], (1000, 0, 0, 2.0)),
        ([], (0, 0, 0, 0.0)),
        (None, (1003, 0, 3, 2.0)),
    ):
        assert catalog.risk_since(dag_ids=dag_ids) == [RiskSample(6000.0, 6030.0, *share)], dag_ids


def test_old_samples_are_thinned_out() -> None:
    """A minute for a day, an hour for a month, a day after that; what is kept once stays while its slot does."""
    now = 1000 * DAY
    minutes = range(now - 3 * DAY, now + 1)
    remaining = sorted(set(minutes) - set(redundant_minutes(minutes, now)))
    assert remaining == [*range(now - 3 * DAY, now - DAY, 60), *range(now - DAY, now + 1)]
    later = now + 40 * DAY
    assert sorted(set(remaining) - set(redundant_minutes(remaining, later))) == [*range(now - 3 * DAY, now + 1, DAY)]


def test_a_new_sample_removes_what_it_makes_superfluous(catalog: Catalog, sampled: Callable[..., bool]) -> None:
    """For every DAG."""
    for minute in (6000, 6001, 6060, 6000 + 2 * DAY):
        sampled(minute, cached("a", origin=Origin("etl")))
    assert [sample.timestamp / 60 for sample in catalog.risk_since(dag_ids=["etl"])] == [6000, 6060, 6000 + 2 * DAY]


def test_a_sample_holds_until_the_next_one_unless_there_is_a_gap() -> None:
    """The maintenance takes one every five minutes; an hour old, one an hour is left."""
    now = 1000 * DAY
    assert known_until([], now) == []
    assert known_until([now - 30, now - 15, now - 2], now) == [now - 15, now - 2, now]
    assert known_until([now - 40, now - 20], now) == [now - 35, now - 15]
    assert known_until([now - DAY - 240, now - DAY - 60, now - 1], now) == [now - DAY - 60, now - DAY, now]
    assert known_until([now - 40 * DAY, now - 36 * DAY], now) == [now - 39 * DAY, now - 35 * DAY]
    assert known_until([now], now - 0.5) == [now], "the clock of the database may be behind"


def test_the_worst_moment_has_the_shares_of_its_dags(catalog: Catalog, sampled: Callable[..., bool]) -> None:
    """Only of those that had any, and that one may read."""
    for minute, size in ((100, 7), (101, 9)):
        mine = cached("a", by="dice", bytes=size, origin=Origin("mine"))
        sampled(minute, mine, cached("b", by="dice", origin=Origin("theirs")))
    worst = max(catalog.risk_since(), key=lambda sample: sample.severity)
    assert worst.timestamp == 6060.0
    assert catalog.risk_shares(worst.timestamp, ["", "mine"]) == {"mine": DagRisk(9, 0, 9, 0.0)}
